#include <algorithm>
#include <ostream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "strategies/pipeline/lower.hpp"
#include "strategies/pipeline/schedule_csv.hpp"
#include "strategies/pipeline/schedule_row.hpp"
#include "strategies/pipeline/schedule_text.hpp"
#include "strategies/pipeline/timeline.hpp"
#include "strategies/pipeline/validate.hpp"

#include "scenarios/load.hpp"
#include "sim/command/verbs.hpp"
#include "sim/console/output_format.hpp"
#include "sim/experiment/experiment.hpp"

namespace shardsim {

namespace {

// A wider picture is less readable than the table.
constexpr std::int64_t kWidestPicture = 120;

PipelineSchedule schedule_of(const ParallelOptions& options) {
  if (options.own_schedule) return *options.own_schedule;
  if (options.mesh.pp == 1 && !schedule_row(options.schedule).is_for_experts) {
    throw UsageError("E0911", "this scenario has no pipeline: parallelism.pp is 1",
                     "raise it, such as with --set parallelism.pp=4");
  }
  return make_schedule(options.schedule, shape_of(options));
}

struct Worst {
  std::int64_t idle = 0;
  std::int64_t idle_in_span = 0;
  int in_flight = 0;
};

Worst worst_of(const Timeline& times) {
  Worst worst;
  for (const RankTimeline& rank : times.ranks) {
    worst.idle = std::max(worst.idle, rank.idle);
    worst.idle_in_span = std::max(worst.idle_in_span, rank.idle_in_span);
    worst.in_flight = std::max(worst.in_flight, rank.peak_in_flight);
  }
  return worst;
}

std::int64_t num_messages(const PipelineSchedule& lowered) {
  std::int64_t sends = 0;
  for (const std::vector<Action>& cells : lowered.actions) {
    sends += std::count_if(cells.begin(), cells.end(),
                           [](const Action& action) { return is_send(action.kind); });
  }
  return sends;
}

void print_figures(const PipelineSchedule& schedule, const Timeline& times, std::ostream& out) {
  const Worst worst = worst_of(times);
  const double whole = static_cast<double>(std::max<std::int64_t>(times.makespan, 1));
  const auto idle = [&](std::int64_t units) {
    return fmt::format("{} of {} units, {:.1f} %", units, times.makespan,
                       100.0 * static_cast<double>(units) / whole);
  };
  const double chunks = schedule.shape.num_chunks;
  const PipelineSchedule lowered = schedule.is_lowered() ? schedule : lower(schedule);
  out << fmt::format(
      "\nwith F = I = W = 1 for a chunk and messages that take no time, on the worst rank\n"
      "  idle in the step                        {}\n"
      "  idle from its first start to its end    {}\n"
      "  in flight                               {:g} microbatches ({} chunks)\n"
      "messages in a step                        {}\n",
      idle(worst.idle), idle(worst.idle_in_span), worst.in_flight / chunks, worst.in_flight,
      num_messages(lowered));
}

}  // namespace

int command_schedule(const ScheduleArguments& arguments, std::ostream& out, std::ostream& err) {
  const Experiment experiment = compile(load_scenario(arguments.file, arguments.overrides));
  tell_warnings(experiment.scenario().warnings, err);
  PipelineSchedule schedule = schedule_of(experiment.options());
  const std::vector<ScheduleProblem> problems = validate(schedule);
  for (const ScheduleProblem& problem : problems) err << explain(schedule, problem);
  if (!problems.empty()) return static_cast<int>(ExitCode::communication);
  if (arguments.lowered && !schedule.is_lowered()) schedule = lower(schedule);
  if (arguments.csv) {
    out << to_csv(schedule);
    return 0;
  }
  const Timeline times = timeline(schedule, {{{}}, 0});
  out << to_text(schedule) << "\n";
  if (times.makespan <= kWidestPicture) out << to_picture(schedule, times);
  print_figures(schedule, times, out);
  return 0;
}

Verb schedule_verb() {
  return with_arguments<ScheduleArguments>(
      {.name = "schedule",
       .summary = "Show the pipeline schedule of a scenario, or write it as CSV",
       .group = VerbGroup::run,
       .examples = {{"shardsim schedule scenarios/verify-gpt-pp4-1f1b.json",
                     "who computes what, and when"},
                    {"shardsim schedule scenarios/verify-gpt-pp4-1f1b.json --csv",
                     "as PyTorch's pipelining reads it"}}},
      [](CLI::App& app, ScheduleArguments& arguments) {
        app.add_option("file", arguments.file, "The scenario")->required();
        app.add_option("--set", arguments.overrides, "Override a field; repeatable")
            ->allow_extra_args(false);
        app.add_flag("--csv", arguments.csv, "Print it as CSV for PyTorch's pipelining");
        app.add_flag("--lowered", arguments.lowered, "Include sends and receives");
      },
      [](const ScheduleArguments& arguments, const Console& console) {
        return command_schedule(arguments, console.out, console.err);
      });
}

}  // namespace shardsim
