#include "sim/collective/collective_run.hpp"

#include <algorithm>

#include "backends/fiber/fiber_world.hpp"

namespace shardsim {

namespace {

// By size, then by rank.
using Found = std::vector<std::vector<TrialResult>>;

// `values`: null for times, without data.
Found run_world(const CollectiveSetting& setting, const RunHooks& hooks, const TestValues* values,
                std::int64_t* sent_bytes) {
  FiberOptions options;
  options.cluster = setting.cluster;
  options.has_data = values != nullptr;
  options.reduction_order = ReductionOrder::wire;
  options.interleaving_seed = hooks.schedule.seed;
  options.on_progress = hooks.on_progress;
  FiberWorld world(std::move(options));
  const auto ranks = static_cast<std::size_t>(setting.ranks());
  Found found(setting.sizes.size(), std::vector<TrialResult>(ranks));
  world.run([&](Runtime&, Communicator& all) {
    std::unique_ptr<Communicator> wrapped;
    if (hooks.wrap_world) wrapped = hooks.wrap_world(all);
    const int rank = all.rank();
    const auto clock = [&world, rank] { return world.engine().rank(rank).now().seconds(); };
    CollectiveTrial trial(setting, wrapped ? *wrapped : all, values, clock);
    for (std::size_t i = 0; i < found.size(); ++i) {
      found[i][static_cast<std::size_t>(rank)] =
          trial.run(setting.sizes[i], values == nullptr ? setting.iterations : 0, setting.checks);
    }
    *sent_bytes += trial.sent_in_all();
  });
  return found;
}

}  // namespace

TestedSize row_of(const CollectiveSetting& setting, std::int64_t size,
                  const std::vector<TrialResult>& by_rank) {
  TestedSize row;
  const ElementCounts counts = setting.counts(size);
  row.size = std::max(counts.send, counts.receive) * size_of(setting.dtype);
  row.count = counts.argument;
  for (const TrialResult& rank : by_rank) {
    row.found.sent_bytes += rank.sent_bytes;
    for (std::size_t i = 0; i < rank.places.size(); ++i) {
      const TrialResult::Place& place = rank.places[i];
      TrialResult::Place& sum = row.found.places[i];
      if (place.seconds) {
        sum.seconds =
            sum.seconds.value_or(0.0) + *place.seconds / static_cast<double>(by_rank.size());
      }
      if (place.wrong) sum.wrong = sum.wrong.value_or(0) + *place.wrong;
    }
  }
  return row;
}

CollectiveRun simulate_collectives(const CollectiveSetting& setting, const RunHooks& hooks) {
  CollectiveRun run;
  const Found times = run_world(setting, hooks, nullptr, &run.sent_bytes);
  Found checked;
  if (setting.checks > 0) {
    const TestValues values(setting.dtype, setting.reduction, reduces(setting.operation),
                            setting.ranks());
    checked = run_world(setting, hooks, &values, &run.sent_bytes);
  }
  for (std::size_t i = 0; i < times.size(); ++i) {
    TestedSize row = row_of(setting, setting.sizes[i], times[i]);
    if (!checked.empty()) {
      const TrialResult found = row_of(setting, setting.sizes[i], checked[i]).found;
      for (std::size_t k = 0; k < found.places.size(); ++k) {
        row.found.places[k].wrong = found.places[k].wrong;
      }
    }
    run.rows.push_back(row);
  }
  return run;
}

void add_simulation(const CollectiveSetting& setting, CollectiveRun& run) {
  CollectiveSetting times_only = setting;
  times_only.checks = 0;
  times_only.iterations = 1;
  const CollectiveRun simulated = simulate_collectives(times_only, {});
  for (std::size_t i = 0; i < run.rows.size(); ++i) {
    const TrialResult& found = simulated.rows[i].found;
    // The same in both places, where there are both.
    for (const TrialResult::Place& place : found.places) {
      if (place.seconds) run.rows[i].simulated_seconds = place.seconds;
    }
    run.rows[i].simulated_sent_bytes = found.sent_bytes;
  }
}

}  // namespace shardsim
