#include "sim/sweep/run_sweep.hpp"

#include <algorithm>
#include <atomic>
#include <ostream>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/kernel/version.hpp"

#include "sim/console/interrupt.hpp"
#include "sim/console/parallel.hpp"
#include "sim/console/progress.hpp"
#include "sim/console/shell_word.hpp"
#include "sim/sweep/emit_script.hpp"
#include "sim/sweep/point_index.hpp"
#include "sim/sweep/run_point.hpp"

namespace shardsim {

namespace {

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
  run_parallel(
      outcome.share, setting.jobs,
      {.body =
           [&](std::size_t i) {
             const std::optional<PointRow> row = run_point(
                 plan, shard.index + i * shard.count,
                 [&](std::size_t point, const std::string& key) { return index.has(point, key); },
                 telling);
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
             outcome.out_of_time = setting.time_limit && progress.elapsed() >= *setting.time_limit;
             return outcome.interrupted || outcome.out_of_time;
           }});
  part.sync();
  progress.end();
  return outcome;
}

}  // namespace shardsim
