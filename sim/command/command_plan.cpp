#include <algorithm>
#include <atomic>
#include <limits>
#include <ostream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "strategies/pipeline/schedule_row.hpp"

#include "reports/pages.hpp"
#include "reports/units.hpp"
#include "scenarios/formats/emit.hpp"
#include "scenarios/load.hpp"
#include "sim/command/plan_arguments.hpp"
#include "sim/command/plan_page.hpp"
#include "sim/command/verbs.hpp"
#include "sim/console/output_format.hpp"
#include "sim/console/progress.hpp"
#include "sim/console/shell_word.hpp"
#include "sim/search/precision_table.hpp"
#include "sim/search/search_report.hpp"

namespace shardsim {

namespace {

Objective objective_of(const PlanArguments& arguments) {
  if (arguments.objective == "memory") return Objective::memory;
  return arguments.objective == "cost" ? Objective::cost : Objective::time;
}

// Comparisons with NaN are never true, so NaN is in no range.
void require_in_range(const PlanArguments& arguments) {
  struct Row {
    const char* option;
    double value;
    double least;
    double most;
  };
  // Larger values make no sense.
  const Row rows[] = {
      {"--jobs", static_cast<double>(arguments.jobs), 1.0, 4096.0},
      {"--top", static_cast<double>(arguments.request.top), 1.0, 1e6},
      {"--front-within", arguments.request.front_within, 1.0, 1e6},
      {"--time-limit", arguments.request.time_limit_s, 0.0, 1e9},
  };
  for (const Row& row : rows) {
    if (row.value >= row.least && row.value <= row.most) continue;
    throw UsageError("E1330", fmt::format("{} {} is out of range", row.option, row.value),
                     fmt::format("give a number from {} to {}", row.least, row.most));
  }
}

// Megatron-LM is proposed where it can say the model.
std::string next_command(const PlanArguments& arguments, const SearchBase& base,
                         const SearchReport& report) {
  if (!arguments.out.empty()) return "shardsim " + shell_word(arguments.out);
  const SearchRequest& request = arguments.request;
  MachineChoice machine{.gpu = request.gpu, .num_gpus = request.num_gpus, .usd_per_gpu_hour = {}};
  if (request.usd_per_gpu_hour > 0) machine.usd_per_gpu_hour = request.usd_per_gpu_hour;
  std::string words = plan_command(arguments, machine);
  if (arguments.emit.empty() && !report.ranked.empty()) {
    const Scenario best = scenario_of(base, report.ranked.front().candidate);
    if (emit_megatron(best).unsaid.empty()) words += " --emit megatron";
  }
  return words + " --out best.json";
}

std::string words_of(const SearchProgress& progress, Objective objective) {
  std::string words = fmt::format("{} simulated", progress.simulated);
  if (!progress.best) return words + ", none that fits yet";
  words += ", best " + (objective == Objective::memory
                            ? format_memory(static_cast<double>(progress.best->device_bytes))
                            : format_seconds(progress.best->step_time_s));
  if (is_proven(*progress.best, progress.gap))
    return words + ", proven to be the best; looking for the Pareto front";
  if (progress.gap) words += fmt::format(", gap {:.3g} %", *progress.gap * kPercent);
  return words;
}

SearchOutcome search_with_progress(const PlanArguments& arguments, const SearchBase& base,
                                   std::ostream& err) {
  const InterruptWatch interrupt;
  Progress progress(err, !arguments.quiet, Progress::Where::terminal);
  SearchHooks hooks;
  hooks.jobs = arguments.jobs;
  const SearchRequest& request = arguments.request;
  hooks.on_progress = [&](const SearchProgress& found) {
    progress.tick(words_of(found, request.objective));
  };
  // The limit is that of the search: the given layout is simulated before it.
  std::atomic<double> begin = std::numeric_limits<double>::infinity();
  hooks.on_begin = [&begin, &progress] { begin = progress.seconds(); };
  hooks.stop = [&interrupt, &progress, &begin, limit = request.time_limit_s] {
    if (interrupt.is_asked()) return SearchStop::interrupt;
    const bool is_over = limit > 0 && progress.seconds() >= begin + limit;
    return is_over ? SearchStop::time_limit : SearchStop::none;
  };
  SearchOutcome outcome = search(base, request, hooks);
  progress.done();
  return outcome;
}

// Writes the other outputs that the user asked for.
void write_best(const PlanArguments& arguments, const SearchBase& base, const SearchReport& report,
                std::ostream& out) {
  if (!arguments.csv.empty()) write_plan_file(arguments.csv, to_csv(report));
  if (!arguments.report.empty())
    write_plan_file(arguments.report, to_html(plan_page(base, report)));
  if (report.ranked.empty() || (arguments.out.empty() && arguments.emit.empty())) return;
  const Scenario best = scenario_of(base, report.ranked.front().candidate);
  if (!arguments.out.empty()) write_plan_file(arguments.out, write_changeable(best));
  if (!arguments.emit.empty()) {
    const Emission emission = emit_for(arguments.emit, best);
    out << "\n" + require_said(emission, arguments.emit, arguments.request.approximate);
  }
}

bool sets_precision(const PlanArguments& arguments) {
  return std::ranges::any_of(arguments.request.overrides, [](const std::string& override) {
    return override.rfind("training.precision=", 0) == 0;
  });
}

// Throws for options that belong to one precision, and not to a comparison.
void require_comparable(const PlanArguments& arguments) {
  const std::optional<std::string>& against = arguments.request.against;
  struct Row {
    const char* option;
    bool is_given;
  };
  for (const Row& row :
       {Row{"--csv", !arguments.csv.empty()}, Row{"--report", !arguments.report.empty()},
        Row{"--against", against.has_value()},
        Row{"--set training.precision", sets_precision(arguments)}}) {
    if (!row.is_given) continue;
    throw UsageError("E1330", fmt::format("{} is of one precision", row.option),
                     "give one precision, or leave it out");
  }
}

// The same question in one of the precisions. A recipe is that of fp8.
PlanArguments in_precision(PlanArguments arguments, const std::string& precision) {
  arguments.request.precision = precision;
  if (precision == to_string(Precision::fp8)) return arguments;
  for (std::vector<std::string>* words : {&arguments.set, &arguments.request.overrides}) {
    std::erase_if(*words, [](const std::string& override) {
      return override.rfind("training.fp8_recipe=", 0) == 0;
    });
  }
  return arguments;
}

struct PrecisionSearch {
  PlanArguments arguments;
  SearchBase base;
};

std::vector<PrecisionSearch> prepare_precisions(const PlanArguments& arguments,
                                                const std::vector<std::string>& precisions,
                                                const Console& console) {
  std::vector<PrecisionSearch> searches;
  std::vector<std::string> told;
  for (const std::string& precision : precisions) {
    PlanArguments own = in_precision(arguments, precision);
    SearchBase base = prepare_search(own.request);
    check_plan_paths(own, base);
    if (!own.emit.empty()) {
      (void)require_said(emit_for(own.emit, base.scenario), own.emit, own.request.approximate);
    }
    for (const std::string& warning : base.warnings) {
      if (std::ranges::find(told, warning) == told.end()) told.push_back(warning);
    }
    searches.push_back({std::move(own), std::move(base)});
  }
  tell_warnings(told, console.err);
  return searches;
}

// One search after the other, each with the whole time limit. After an interrupt nothing is
// searched any more.
int compare_precisions(const PlanArguments& arguments, const std::vector<std::string>& precisions,
                       const Console& console) {
  require_comparable(arguments);
  const std::vector<PrecisionSearch> searches = prepare_precisions(arguments, precisions, console);
  std::vector<SearchReport> reports;
  bool was_interrupted = false;
  for (const PrecisionSearch& each : searches) {
    SearchOutcome outcome;
    outcome.stop = SearchStop::interrupt;
    if (!was_interrupted) outcome = search_with_progress(each.arguments, each.base, console.err);
    was_interrupted |= outcome.stop == SearchStop::interrupt;
    reports.push_back(report_of(each.base, each.arguments.request, outcome));
  }
  const std::vector<std::size_t> order = rank_precisions(reports);
  const PrecisionSearch& first = searches[order.front()];
  const SearchReport& best = reports[order.front()];
  std::vector<SearchReport> ranked;
  for (const std::size_t place : order) ranked.push_back(reports[place]);
  if (arguments.json) {
    console.out << to_json(ranked);
  } else {
    console.out << to_text(ranked, {.wide = arguments.wide,
                                    .ascii = arguments.ascii,
                                    .command = next_command(first.arguments, first.base, best)});
  }
  write_best(first.arguments, first.base, best, console.out);
  if (was_interrupted) return static_cast<int>(ExitCode::interrupted);
  return static_cast<int>(best.ranked.empty() ? ExitCode::does_not_fit : ExitCode::ok);
}

int command_plan(PlanArguments& arguments, const Console& console) {
  require_in_range(arguments);
  apply_words(arguments);
  arguments.request.objective = objective_of(arguments);
  if (arguments.json && !arguments.emit.empty()) {
    throw UsageError("E1330", "--json and --emit both write to standard output",
                     "ask for one of them at a time");
  }
  if (!arguments.emit.empty()) require_framework(arguments.emit);
  const Question question = read_question(arguments.words, arguments.request);
  if (asks_for_machines(question)) return answer_question(arguments, question, console);
  arguments.request = request_of(question, question.machines.front());
  if (!arguments.request.precision.empty()) {
    const std::vector<std::string> precisions = precisions_of(arguments.request.precision);
    if (precisions.size() > 1) return compare_precisions(arguments, precisions, console);
  }
  const SearchBase base = prepare_search(arguments.request);
  check_plan_paths(arguments, base);
  if (!arguments.emit.empty()) {  // Most refusals follow from the model, ahead of a search.
    (void)require_said(emit_for(arguments.emit, base.scenario), arguments.emit,
                       arguments.request.approximate);
  }
  tell_warnings(base.warnings, console.err);
  const SearchOutcome outcome = search_with_progress(arguments, base, console.err);
  const SearchReport report = report_of(base, arguments.request, outcome);
  if (arguments.json) {
    console.out << to_json(report);
  } else {
    console.out << to_text(report, {.wide = arguments.wide,
                                    .ascii = arguments.ascii,
                                    .command = next_command(arguments, base, report)});
  }
  write_best(arguments, base, report, console.out);
  if (report.stop == SearchStop::interrupt) return static_cast<int>(ExitCode::interrupted);
  return static_cast<int>(report.ranked.empty() ? ExitCode::does_not_fit : ExitCode::ok);
}

void add_plan_options(CLI::App& app, PlanArguments& arguments) {
  SearchRequest& request = arguments.request;
  app.add_option("model", request.model,
                 "A model's name, or a JSON file: a scenario, a model, a config.json")
      ->required();
  QuestionWords& words = arguments.words;
  app.add_option("--gpus", words.gpus,
                 "Number of GPUs; 256,512 or 256..2048 (doubles) compares numbers")
      ->required();
  app.add_option("--gpu", words.gpu,
                 "GPU (h100, b200, gb300, ...) or a system preset; h100,b200 compares kinds")
      ->required();
  app.add_option("--tokens", words.tokens, "Tokens of the whole training: 300B, 10T");
  app.add_option("--deadline", words.deadline, "Days that the training may take: 90d, 12w");
  app.add_option("--budget", words.budget, "Dollars that the training may cost: 6M");
  app.add_option("--seq-len", request.seq_len, "Tokens per sequence");
  app.add_option("--global-batch-size", request.global_batch_size, "Sequences per step");
  app.add_option("--precision", request.precision,
                 "bf16, fp16, fp32, fp8 or nvfp4; fp8,bf16 compares them");
  app.add_option("--software", arguments.software, "Framework to price (system.software)");
  app.add_option("--failures", arguments.failures,
                 "Failure rates, for the goodput: fields of \"faults\", such as "
                 "gpu_mtbf_hours=50000,restart_s=600,checkpoint_write_s=30");
  app.add_option("--memory-margin", arguments.memory_margin,
                 "Share of the memory that a layout should leave (5%)");
  app.add_option("--set", arguments.set, "Override a field: a.b=value; repeatable")
      ->allow_extra_args(false);
  app.add_option(
         "--fix", request.fixed,
         fmt::format("Fix a choice: tp=4,8 or schedule={}; repeatable", default_schedule().name))
      ->allow_extra_args(false);
  // Not bound as an optional: for those CLI11 takes an empty value for none.
  app.add_option_function<std::string>(
      "--against", [&request](const std::string& layout) { request.against = layout; },
      "Rank a layout, too: tp=2,pp=8,ep=32, or a scenario's file");
  app.add_flag(
      "--approximate", request.approximate,
      "Take the nearest model where a config.json has what is not supported, and the nearest "
      "settings where --emit cannot say the model");
  app.add_option("--objective", arguments.objective, "What to minimize: time, memory or cost")
      ->check(CLI::IsMember({"time", "memory", "cost"}));
  app.add_option("--top", request.top, "Number of layouts to list");
  app.add_option("--front-within", request.front_within,
                 "Search the Pareto front up to this many times the fastest step (1.25)");
  app.add_option("--time-limit", request.time_limit_s,
                 "Stop after so many seconds with the best so far (60; 0: no limit)");
  app.add_option("--usd-per-gpu-hour", words.usd_per_gpu_hour,
                 "Price of a GPU for an hour: 2.5, or h100=2.5,b200=5");
  app.add_option("--jobs,-j", arguments.jobs, "Number of parallel simulations");
  app.add_option("--emit", arguments.emit,
                 "Print the best layout for megatron, torchtitan or deepspeed");
  app.add_option("--out", arguments.out, "Write the best layout as a scenario");
  app.add_option("--csv", arguments.csv, "Write all simulated layouts that fit, as CSV");
  app.add_option("--report", arguments.report, "Write an HTML report");
  app.add_flag("--json", arguments.json, "Print the results as JSON");
  app.add_flag("--wide", arguments.wide, "Print more than 100 columns");
  app.add_flag("--ascii", arguments.ascii, "Draw the scatter plot without Unicode");
  app.add_flag("-q,--quiet", arguments.quiet, "Print no progress");
}

}  // namespace

Verb plan_verb() {
  return with_arguments<PlanArguments>(
      {.name = "plan",
       .summary = "Find the best layout of a model on a number of GPUs",
       .examples =
           {{"shardsim plan llama3-70b --gpus 128 --gpu h100",
             "the best layouts, why they are, and what they cost"},
            {"shardsim plan llama3-70b --gpus 128 --gpu h100 --emit megatron",
             "with the flags to launch it"},
            {"shardsim plan llama3-70b --gpus 128 --gpu b200 --precision nvfp4,fp8,bf16",
             "the best layout in each precision"},
            {"shardsim plan qwen3-235b-a22b --gpus 256 --gpu h100 --against tp=2,pp=8,ep=32",
             "and where the layout of today stands among them"},
            {"shardsim plan llama3-70b --gpus 256..2048 --gpu h100,b200 --tokens 10T --deadline "
             "90d "
             "--usd-per-gpu-hour h100=2.5,b200=5 --budget 6M",
             "which machine trains it in time and within a budget"}}},
      add_plan_options, command_plan);
}

}  // namespace shardsim
