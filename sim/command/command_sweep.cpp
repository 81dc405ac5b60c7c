#include <charconv>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "sim/command/verbs.hpp"
#include "sim/console/junit.hpp"
#include "sim/console/parallel.hpp"
#include "sim/console/shell_word.hpp"
#include "sim/sweep/part_file.hpp"
#include "sim/sweep/point_problems.hpp"
#include "sim/sweep/run_sweep.hpp"
#include "sim/sweep/shard.hpp"
#include "sim/sweep/sweep_summary.hpp"

namespace shardsim {

namespace {

struct SweepArguments {
  SweepRequest request;
  std::string shard = "0/1";
  std::string folder;        // Empty: the file's name with .sweep, in the current folder.
  int jobs = 0;              // 0: as many as there are cores.
  std::string time_limit;    // "90s", "10m", "2h"; empty: none.
  std::string format;        // "ndjson" or "csv": print the rows instead of the summary.
  bool junit = false;        // Print the points as test cases instead of the summary.
  bool annotations = false;  // Print what is wrong with points as annotations before the summary.
  std::string emit;          // "slurm", "parallel" or "make".
  std::size_t shards = 0;    // For --emit; 0: a fitting number.
  bool list = false;
  bool quiet = false;
};

constexpr std::int64_t kSecondsPerMinute = 60;
constexpr int kMostJobs = 1024;

std::string folder_of(const SweepArguments& arguments) {
  if (!arguments.folder.empty()) return arguments.folder;
  return std::filesystem::path(arguments.request.file).stem().string() + ".sweep";
}

std::optional<std::chrono::seconds> time_limit_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, number);
  const std::string unit(last, end);
  const std::int64_t factor = unit == "h"                   ? 60 * kSecondsPerMinute
                              : unit == "m"                 ? kSecondsPerMinute
                              : unit == "s" || unit.empty() ? 1
                                                            : 0;
  constexpr std::int64_t kMost = 1'000'000;
  if (error != std::errc() || number < 0 || number > kMost || factor == 0) {
    throw UsageError("E1318", fmt::format("--time-limit \"{}\" is not a duration", text),
                     "write 90s, 10m or 2h");
  }
  return std::chrono::seconds(number * factor);
}

int jobs_of(const SweepArguments& arguments) {
  if (arguments.jobs == 0) return default_jobs();
  if (arguments.jobs > 0 && arguments.jobs <= kMostJobs) return arguments.jobs;
  throw UsageError("E1318", fmt::format("--jobs {} is out of range", arguments.jobs),
                   fmt::format("from 1 to {}", kMostJobs));
}

void list_points(const SweepPlan& plan, const Shard& shard, std::ostream& out) {
  for (std::size_t point = shard.index; point < plan.num_points; point += shard.count) {
    out << point;
    const std::vector<std::string> values = values_of(plan, point);
    for (std::size_t i = 0; i < values.size(); ++i) {
      out << " " << shell_word(plan.columns[i] + "=" + values[i]);
    }
    out << "\n";
  }
}

// Prints the rows of this shard, in order of points.
void print_rows(const PointIndex& index, const SweepPlan& plan, const Shard& shard, bool csv,
                std::ostream& out) {
  if (csv) out << csv_header(plan.columns);
  index.for_each_line([&](const KeptRow& row, const std::string& line) {
    if (!shard.has(row.point) || plan.block.skip.count(row.status) > 0) return;
    out << (csv ? csv_of(line) : line + "\n");
  });
}

bool is_skipped(const SweepPlan& plan, const PointRow& row) {
  return plan.block.skip.count(std::string(name_of(row.status))) > 0;
}

// All problems as `check` and `run` print them, and the warnings of the run.
std::string failure_text(const SweepPlan& plan, const PointRow& row) {
  std::string text;
  for (const Problem& problem : problems_of_point(plan, row)) text += render(problem);
  for (const std::string& warning : row.warnings) text += "warning: " + warning + "\n";
  return text;
}

// A point that the sweep's "skip" names, or that is not computed yet, is a skipped case.
JunitCase case_of_point(const SweepPlan& plan, const PointRow& row) {
  JunitCase each{.class_name = plan.file, .name = point_words(plan, row.point)};
  if (row.status == PointStatus::ok) return each;
  each.outcome = is_skipped(plan, row) ? CaseOutcome::skipped : CaseOutcome::failed;
  each.type = row.code;
  each.message = row.message;
  if (each.outcome == CaseOutcome::failed) each.text = failure_text(plan, row);
  return each;
}

// The rows of this shard, in order of points.
void for_each_row(const PointIndex& index, const SweepPlan& plan, const Shard& shard,
                  const std::function<void(const PointRow&)>& take) {
  index.for_each_line([&](const KeptRow& row, const std::string& line) {
    if (shard.has(row.point)) take(row_of(line, plan.columns));
  });
}

// A case for each point of this shard, in order of points. The warnings of points that passed are
// messages of the suite.
void print_junit(const PointIndex& index, const SweepPlan& plan, const Shard& shard,
                 const Console& console) {
  std::map<std::size_t, JunitCase> done;
  std::string messages;
  for_each_row(index, plan, shard, [&](const PointRow& row) {
    done[row.point] = case_of_point(plan, row);
    if (row.status != PointStatus::ok) return;
    for (const std::string& warning : row.warnings) {
      messages += point_words(plan, row.point) + ": warning: " + warning + "\n";
    }
  });
  std::vector<JunitCase> cases;
  for (std::size_t point = shard.index; point < plan.num_points; point += shard.count) {
    const auto found = done.find(point);
    cases.push_back(found != done.end() ? found->second
                                        : JunitCase{.class_name = plan.file,
                                                    .name = point_words(plan, point),
                                                    .outcome = CaseOutcome::skipped,
                                                    .message = "it is not computed yet"});
  }
  console.out << junit_xml("shardsim sweep", cases, messages);
  tell_failures(cases, console.err);
}

void print_annotations(const PointIndex& index, const SweepPlan& plan, const Shard& shard,
                       std::ostream& out) {
  for_each_row(index, plan, shard, [&](const PointRow& row) {
    if (!is_skipped(plan, row)) out << annotations_of_point(plan, row);
  });
}

std::string shard_words(const Shard& shard) {
  return shard.count == 1 ? "" : fmt::format(" --shard {}/{}", shard.index, shard.count);
}

void tell_outcome(const SweepOutcome& outcome, const SweepSetting& setting,
                  const PartHeader& header, std::ostream& err) {
  const std::string part =
      part_path(setting.folder, setting.shard.index, setting.shard.count).string();
  if (outcome.is_complete()) {
    err << fmt::format("{} points computed, {} already done; results in {}\n", outcome.computed,
                       outcome.found, part);
    return;
  }
  // Points found after the stop are not counted: they were not checked.
  err << fmt::format("{}: {} points computed, nothing is lost: {}\n  resume with: {}{}\n",
                     outcome.interrupted ? "interrupted" : "time is over", outcome.computed, part,
                     header.command, shard_words(setting.shard));
}

// The next command, after the number of finished points.
std::string next_words(const PointIndex& index, const PartHeader& header,
                       const std::string& folder) {
  const std::size_t there = index.points().size();
  if (there < header.num_points) {
    return fmt::format("{} of {} points are done; missing: {}\n", there, header.num_points,
                       header.command);
  }
  return fmt::format("Next: shardsim merge {} --csv -o {}\n", shell_word(folder),
                     shell_word(std::filesystem::path(folder).replace_extension(".csv").string()));
}

void show(const SweepArguments& arguments, const SweepPlan& plan, const SweepSetting& setting,
          const Console& console) {
  const bool is_silent = arguments.quiet && arguments.format.empty() && !arguments.junit;
  if (is_silent && !arguments.annotations) return;
  const PartHeader header = header_of(plan, setting.folder);
  const PointIndex index(setting.folder, &header);
  if (arguments.annotations) print_annotations(index, plan, setting.shard, console.out);
  if (is_silent) return;
  if (arguments.junit) {
    print_junit(index, plan, setting.shard, console);
    return;
  }
  if (!arguments.format.empty()) {
    print_rows(index, plan, setting.shard, arguments.format == "csv", console.out);
    return;
  }
  const std::vector<SweepObjective> objectives = objectives_of(plan.block);
  console.out << summary_text(find_best(index, plan.columns, objectives), plan.columns, objectives)
              << "\n"
              << next_words(index, header, setting.folder);
  if (index.num_damaged() > 0) {
    console.err << fmt::format("warning: {} damaged lines were passed over\n", index.num_damaged());
  }
}

void add_sweep_options(CLI::App& verb, SweepArguments& arguments) {
  verb.add_option("file", arguments.request.file, "A scenario with a \"sweep\" block")->required();
  verb.add_option("--axis", arguments.request.axes, "Vary a field: a.b=1,2,4; repeatable")
      ->allow_extra_args(false);
  verb.add_option("--set", arguments.request.overrides, "Override a field: a.b=value; repeatable")
      ->allow_extra_args(false);
  verb.add_option("--jobs", arguments.jobs, "Number of parallel points (one per core)");
  verb.add_option("--shard", arguments.shard,
                  "i/n: points k with k mod n = i; auto: taken from Slurm, mpirun or torchrun");
  verb.add_option("--out", arguments.folder, "Folder of the part files (FILE's name with .sweep)");
  verb.add_option("--time-limit", arguments.time_limit, "Start no point after 90s, 10m or 2h");
  verb.add_option("--format", arguments.format, "Print the rows: ndjson or csv")
      ->check(CLI::IsMember({"ndjson", "csv"}));
  verb.add_option_function<std::string>(
          "--output-format",
          [&arguments](const std::string& format) {
            arguments.junit = format == "junit";
            arguments.annotations = format == "github";
          },
          "text; github: workflow annotations, too; or junit: a test case for each point")
      ->check(CLI::IsMember({"text", "github", "junit"}));
  verb.add_flag("--list", arguments.list, "Print the points and run none");
  verb.add_option("--emit", arguments.emit, "Print a script: slurm, parallel or make")
      ->check(CLI::IsMember({"slurm", "parallel", "make"}));
  verb.add_option("--shards", arguments.shards, "Number of tasks in that script");
  verb.add_flag("-q,--quiet", arguments.quiet, "Print nothing unless something is wrong");
}

// `shardsim sweep FILE`: computes the missing points, and keeps each as it ends. Returns 0 also if
// points are invalid or do not fit: these are findings. Returns 130 after Ctrl-C. Throws Error.
int command_sweep(const SweepArguments& arguments, const Console& console) {
  const SweepPlan plan = load_sweep(arguments.request);
  const std::string folder = folder_of(arguments);
  if (!arguments.emit.empty()) {
    const std::size_t shards =
        arguments.shards > 0 ? arguments.shards : default_shards(plan.num_points);
    console.out << script_of(header_of(plan, folder), {arguments.emit, folder, shards});
    return 0;
  }
  const SweepSetting setting{.folder = folder,
                             .shard = shard_of(arguments.shard),
                             .jobs = jobs_of(arguments),
                             .time_limit = time_limit_of(arguments.time_limit),
                             .quiet = arguments.quiet};
  if (arguments.list) {
    list_points(plan, setting.shard, console.out);
    return 0;
  }
  if (setting.shard.source.empty() && !arguments.quiet) {
    console.err << "note: no launcher says which shard this is; all points are computed here\n";
  }
  const SweepOutcome outcome = run_sweep(plan, setting, console.hooks, console.err);
  if (!arguments.quiet || !outcome.is_complete()) {
    tell_outcome(outcome, setting, header_of(plan, folder), console.err);
  }
  if (outcome.interrupted && !outcome.is_complete()) {
    return static_cast<int>(ExitCode::interrupted);
  }
  show(arguments, plan, setting, console);
  return 0;
}

}  // namespace

Verb sweep_verb() {
  return with_arguments<SweepArguments>(
      {.name = "sweep",
       .summary = "Run a scenario at many points; resume a stopped sweep",
       .examples =
           {{"shardsim sweep scenarios/quickstart.json --axis training.micro_batch_size=1,2 --axis "
             "parallelism.zero_stage=1,2,3 --set system.software=none",
             "six runs with ideal kernels: what is fastest, and what fits"},
            {"shardsim sweep plan.json --shard auto", "this task's share, under Slurm or mpirun"},
            {"shardsim sweep plan.json --output-format=junit > sweep.xml",
             "a test case for each point, for a CI service"}}},
      add_sweep_options, command_sweep);
}

}  // namespace shardsim
