#include "backends/fiber/fiber_world.hpp"

#include "sim/collective/collective_run.hpp"

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
    CollectiveRow row = row_of(setting, setting.sizes[i], times[i]);
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

}  // namespace shardsim
