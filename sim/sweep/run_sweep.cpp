#include "sim/sweep/run_sweep.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/hash.hpp"
#include "sim/kernel/version.hpp"

#include "strategies/pipeline/schedule_csv.hpp"

#include "reports/verdict_words.hpp"
#include "scenarios/load.hpp"
#include "sim/console/parallel.hpp"
#include "sim/console/progress.hpp"
#include "sim/console/shell_word.hpp"
#include "sim/run/run.hpp"
#include "sim/sweep/part_file.hpp"
#include "sim/sweep/point_row.hpp"
#include "sim/sweep/shard.hpp"

namespace shardsim {

namespace {

std::string key_of(const std::string& text) {
  return fmt::format("{:016x}", hash_text(std::string(version()) + "\n" + text));
}

// The resolved scenario names files; results depend on their content.
std::string key_of(const Scenario& scenario) {
  std::string text = scenario.resolved_json;
  if (scenario.own_schedule != nullptr) text += to_csv(*scenario.own_schedule);
  for (const auto& layer : scenario.model.moe_popularity) {
    for (const double share : layer) text += fmt::format(" {}", share);
  }
  return key_of(text);
}

void fail(PointRow& row, PointStatus status, const std::string& code, const std::string& message) {
  row.status = status;
  row.code = code;
  row.message = message;
}

void refuse(PointRow& row, const ScenarioError& error) {
  const std::size_t more = error.problems().size() + error.num_dropped() - 1;
  const bool limit = error.exit_code() == ExitCode::does_not_fit;
  fail(row, limit ? PointStatus::failed : PointStatus::invalid, error.code(),
       more == 0 ? error.what() : fmt::format("{} (and {} more)", error.what(), more));
}

// The first check or expectation that did not hold.
void explain(PointRow& row, const Result& result) {
  for (const Check& check : result.checks) {
    if (!check.passed) return fail(row, PointStatus::failed, "check", check.detail);
  }
  for (const ExpectationResult& expected : result.expectations) {
    if (expected.passed) continue;
    return fail(row, PointStatus::failed, "expectation", expectation_text(expected, result));
  }
}

void judge_result(PointRow& row, Result&& result) {
  row.metrics = std::move(result.metrics);
  row.bands = std::move(result.error_bands);
  row.warnings = std::move(result.warnings);
  switch (static_cast<ExitCode>(result.exit_code)) {
    case ExitCode::ok:
      return;
    case ExitCode::does_not_fit: {
      const auto memory = std::ranges::find(result.checks, "memory", &Check::name);
      return fail(row, PointStatus::out_of_memory, "memory",
                  memory != result.checks.end() ? memory->detail : "");
    }
    case ExitCode::communication:
      return fail(row, PointStatus::failed, result.diagnosis->code, result.diagnosis->summary);
    default:
      return explain(row, result);
  }
}

// One point, from its number to its row. Nothing if `found` has it already. Every failure of a
// point is in its row: one bad point does not end a sweep. May be called from any thread.
std::optional<PointRow> run_point(const SweepPlan& plan, std::size_t point, const PointIndex& found,
                                  const RunHooks& hooks) {
  PointRow row{.point = point, .values = values_of(plan, point)};
  try {
    Scenario scenario;
    try {
      scenario = load_scenario_text(plan.text, plan.file, overrides_of(plan, point));
    } catch (const ScenarioError& error) {
      row.key = key_of(fmt::format("{} {} {}", plan.hash, point, error.what()));
      if (found.has(point, row.key)) return std::nullopt;
      refuse(row, error);
      return row;
    }
    scenario.output.trace.clear();  // Points write no files; a trace would only take memory.
    row.key = key_of(scenario);
    if (found.has(point, row.key)) return std::nullopt;
    judge_result(row, run_scenario(std::move(scenario), hooks).result);
  } catch (const Error& error) {
    fail(row, PointStatus::failed, error.code(), error.what());
  } catch (const std::exception& error) {  // Our bug, or too little memory here.
    fail(row, PointStatus::failed, kInternalCode, error.what());
  }
  return row;
}

// Points report progress from several threads; a thread that finds it busy skips its report.
class SharedProgress {
 public:
  SharedProgress(std::ostream& err, bool enabled, std::size_t total)
      : progress_(err, enabled), total_(total) {}

  void tick() {
    if (busy_.test_and_set()) return;
    progress_.tick(done_, total_);
    busy_.clear();
  }
  void add_done() { ++done_; }
  void end() { progress_.done(); }
  [[nodiscard]] std::chrono::seconds elapsed() const { return progress_.elapsed(); }

 private:
  Progress progress_;
  std::size_t total_;
  std::atomic<std::size_t> done_ = 0;
  std::atomic_flag busy_;
};

std::size_t found_in_shard(const PointIndex& index, const Shard& shard) {
  const std::set<std::size_t> points = index.points();
  return static_cast<std::size_t>(
      std::count_if(points.begin(), points.end(), [&](std::size_t p) { return shard.has(p); }));
}

}  // namespace

PartHeader header_of(const SweepPlan& plan, const std::string& folder) {
  std::string command = "shardsim sweep " + shell_word(plan.file);
  for (const std::string& flag : plan.overrides) command += " --set " + shell_word(flag);
  for (const std::string& flag : plan.axis_flags) command += " --axis " + shell_word(flag);
  command += " --out " + shell_word(folder);
  return {.version = std::string(version()),
          .sweep = plan.hash,
          .num_points = plan.num_points,
          .columns = plan.columns,
          .skip = {plan.block.skip.begin(), plan.block.skip.end()},
          .command = command};
}

SweepOutcome run_sweep(const SweepPlan& plan, const SweepSetting& setting, const RunHooks& hooks,
                       std::ostream& err) {
  const Shard& shard = setting.shard;
  const PartHeader header = header_of(plan, setting.folder);
  PartFile part(part_path(setting.folder, shard.index, shard.count), header, err);
  const PointIndex index(setting.folder, &header);
  SweepOutcome outcome{.share = shard.share_of(plan.num_points)};
  SharedProgress progress(err, !setting.quiet, outcome.share - found_in_shard(index, shard));
  RunHooks telling = hooks;
  telling.on_progress = [&progress] { progress.tick(); };
  const InterruptWatch watch;
  // Each index has its own line, from its body until it has ended; empty: the row existed already.
  std::vector<std::string> lines(outcome.share);
  run_parallel(outcome.share, setting.jobs,
               {.body =
                    [&](std::size_t i) {
                      const std::optional<PointRow> row =
                          run_point(plan, shard.index + i * shard.count, index, telling);
                      if (row) lines[i] = line_of(*row, plan.columns);
                    },
                .finished =
                    [&](std::size_t i) {
                      if (!lines[i].empty()) {
                        part.append(std::exchange(lines[i], {}));
                        ++outcome.computed;
                        progress.add_done();
                      } else {
                        ++outcome.found;
                      }
                      progress.tick();
                    },
                .stop =
                    [&] {
                      outcome.interrupted = watch.is_asked();
                      outcome.out_of_time =
                          setting.time_limit && progress.elapsed() >= *setting.time_limit;
                      return outcome.interrupted || outcome.out_of_time;
                    }});
  part.sync();
  progress.end();
  return outcome;
}

}  // namespace shardsim
