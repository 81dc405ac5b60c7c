#include <algorithm>
#include <ostream>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "scenarios/formats/emit.hpp"
#include "scenarios/load.hpp"
#include "sim/command/plan_arguments.hpp"
#include "sim/command/question_page.hpp"
#include "sim/command/verbs.hpp"
#include "sim/console/output_format.hpp"
#include "sim/console/progress.hpp"

#include "sim/question/ask.hpp"

namespace shardsim {

namespace {

// Throws for options that belong to the layouts of one machine.
void require_for_machines(const PlanArguments& arguments) {
  struct Row {
    const char* option;
    bool is_given;
  };
  const SearchRequest& request = arguments.request;
  for (const Row& row :
       {Row{"--against", request.against.has_value()},
        Row{"--objective", request.objective != Objective::time},
        Row{"--top", request.top != SearchRequest().top},
        Row{"--front-within", request.front_within != SearchRequest().front_within},
        Row{"--wide", arguments.wide}, Row{"--ascii", arguments.ascii},
        Row{"--precision with a list", request.precision.find(',') != std::string::npos}}) {
    if (!row.is_given) continue;
    throw UsageError("E1330",
                     fmt::format("{} is of one machine, and this question is about {}", row.option,
                                 "a choice, a deadline or a budget"),
                     "ask about one --gpus and one --gpu, without --deadline and --budget");
  }
}

const PreparedMachine& machine_of(const std::vector<PreparedMachine>& machines,
                                  const AnswerRow& row) {
  return *std::ranges::find_if(machines, [&row](const PreparedMachine& machine) {
    return machine.machine.gpu == row.machine.gpu &&
           machine.machine.num_gpus == row.machine.num_gpus;
  });
}

// Files and flags that the user asked for besides the table: the layout is the first row's.
void write_answer(const PlanArguments& arguments, const std::vector<PreparedMachine>& machines,
                  const Answer& answer, std::ostream& out) {
  if (!arguments.csv.empty()) write_plan_file(arguments.csv, to_csv(answer));
  if (!arguments.report.empty()) write_plan_file(arguments.report, to_html(question_page(answer)));
  const AnswerRow& first = answer.rows.front();
  if (!first.best || (arguments.out.empty() && arguments.emit.empty())) return;
  const Scenario best = scenario_of(machine_of(machines, first).base, first.best->candidate);
  if (!arguments.out.empty()) write_plan_file(arguments.out, write_changeable(best));
  if (!arguments.emit.empty()) {
    const Emission emission = emit_for(arguments.emit, best);
    out << "\n" + require_said(emission, arguments.emit, arguments.request.approximate);
  }
}

// The next question of a planner is about the layouts of one machine.
std::string next_command(const PlanArguments& arguments, const Answer& answer) {
  const AnswerRow& first = answer.rows.front();
  if (!first.best) return {};
  // Alone the machine would have a default batch of its own, which is another training.
  PlanArguments same = arguments;
  same.request.global_batch_size = answer.global_batch_size;
  return plan_command(same, first.machine);
}

ExitCode exit_code_of(const Answer& answer) {
  if (answer.stop == SearchStop::interrupt) return ExitCode::interrupted;
  switch (answer.rows.front().fate) {
    case MachineFate::holds:
      return ExitCode::ok;
    case MachineFate::misses:
      return ExitCode::check_failed;
    case MachineFate::not_found:
    case MachineFate::does_not_fit:
    case MachineFate::no_layout:
      break;
  }
  return ExitCode::does_not_fit;
}

Answer ask_with_progress(const PlanArguments& arguments, const Question& question,
                         const std::vector<PreparedMachine>& machines, std::ostream& err) {
  const InterruptWatch interrupt;
  Progress progress(err, !arguments.quiet, Progress::Where::terminal);
  AskHooks hooks;
  hooks.jobs = arguments.jobs;
  hooks.seconds = [&progress] { return progress.seconds(); };
  const double limit_s = question.shared.time_limit_s;
  hooks.stop = [&interrupt, &progress, limit_s] {
    if (interrupt.is_asked()) return SearchStop::interrupt;
    const bool is_over = limit_s > 0 && progress.seconds() >= limit_s;
    return is_over ? SearchStop::time_limit : SearchStop::none;
  };
  hooks.on_progress = [&progress](const std::string& words) { progress.tick(words); };
  hooks.on_first = [&](const Answer& first) {
    if (arguments.quiet) return;
    progress.done();
    err << fmt::format("after {:.1f} s, before the search is complete: ", progress.seconds())
        << to_table(first) << "\n"
        << std::flush;
  };
  Answer answer = ask(question, machines, hooks);
  progress.done();
  return answer;
}

}  // namespace

int answer_question(const PlanArguments& arguments, const Question& question,
                    const Console& console) {
  require_for_machines(arguments);
  const std::vector<PreparedMachine> machines = prepare_machines(question);
  const SearchBase& first = shared_base(machines);
  check_plan_paths(arguments, first);
  if (!arguments.emit.empty()) {
    (void)require_said(emit_for(arguments.emit, first.scenario), arguments.emit,
                       arguments.request.approximate);
  }
  tell_warnings(warnings_of(machines), console.err);
  const Answer answer = ask_with_progress(arguments, question, machines, console.err);
  if (arguments.json) {
    console.out << to_json(answer);
  } else {
    console.out << to_text(answer, {.command = next_command(arguments, answer)});
  }
  write_answer(arguments, machines, answer, console.out);
  return static_cast<int>(exit_code_of(answer));
}

}  // namespace shardsim
