#include "sim/run/detail/watched_run.hpp"

#include <algorithm>
#include <utility>

#include "strategies/mesh.hpp"

namespace shardsim {

WatchedRun::WatchedRun(const ParallelPlan& plan, const RunHooks& hooks, FiberOptions options,
                       const DecisionLog* decisions, const std::set<int>& ranks) {
  options.has_data = false;
  options.record = nullptr;
  options.watch = false;
  options.traced_ranks.clear();
  if (decisions != nullptr) replay_.emplace(*decisions);
  options.replay = replay_ ? &*replay_ : nullptr;
  for (const int rank : ranks) {
    recorders_.push_back(std::make_unique<RankRecorder>(plan.options().training.steps));
    options.observers.emplace(rank, recorders_.back().get());
  }
  world_.emplace(std::move(options));
  auto recorder = recorders_.begin();
  for (const int rank : ranks) (*recorder++)->attach(world_->engine().rank(rank));
  run(plan, hooks);
}

void WatchedRun::run(const ParallelPlan& plan, const RunHooks& hooks) {
  world_->run([&](Runtime& runtime, Communicator& everyone) {
    std::unique_ptr<Communicator> wrapped;
    if (hooks.wrap_world) wrapped = hooks.wrap_world(everyone);
    Mesh mesh(wrapped ? *wrapped : everyone, plan.options().mesh);
    const auto recorder = std::find_if(recorders_.begin(), recorders_.end(), [&](const auto& each) {
      return each->rank() == everyone.rank();
    });
    TrainingObserver unseen;
    plan.train_rank(runtime, mesh, recorder == recorders_.end() ? unseen : **recorder);
  });
}

RankRecorder& WatchedRun::of(int rank) const {
  return **std::find_if(recorders_.begin(), recorders_.end(),
                        [&](const auto& each) { return each->rank() == rank; });
}

}  // namespace shardsim
