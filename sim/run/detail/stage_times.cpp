#include "sim/run/detail/stage_times.hpp"

#include <algorithm>

namespace shardsim {

namespace {

std::size_t stage_of_rank(const MeshShape& mesh, int rank) {
  return static_cast<std::size_t>(mesh.place_of(rank).pp);
}

// By stage, the rank with the largest `key`; of equal ranks, the lowest.
template <class Key>
std::vector<int> first_largest(const FiberWorld& world, const MeshShape& mesh, const Key& key) {
  std::vector<int> found(static_cast<std::size_t>(mesh.pp), -1);
  for (int rank = 0; rank < world.engine().num_ranks(); ++rank) {
    int& best = found[stage_of_rank(mesh, rank)];
    if (best < 0 || key(rank) > key(best)) best = rank;
  }
  return found;
}

}  // namespace

std::vector<int> fullest_ranks(const FiberWorld& world, const MeshShape& mesh) {
  return first_largest(world, mesh,
                       [&](int rank) { return world.engine().rank(rank).ledger().peak(); });
}

std::vector<StageTime> stage_times(const FiberWorld& world, const RunRecord& record,
                                   const MeshShape& mesh) {
  const std::vector<int> last =
      first_largest(world, mesh, [&](int rank) { return record.last_step_end(rank).clock; });
  const std::vector<int> fullest = fullest_ranks(world, mesh);
  std::vector<StageTime> stages;
  for (std::size_t stage = 0; stage < last.size(); ++stage) {
    const RankMoment& begin = record.last_step_begin(last[stage]);
    const RankMoment& end = record.last_step_end(last[stage]);
    const MemoryLedger& ledger = world.engine().rank(fullest[stage]).ledger();
    stages.push_back(
        {.stage = static_cast<std::int64_t>(stage),
         .rank = last[stage],
         .compute_s = (end.split.compute - begin.split.compute).seconds(),
         .exposed_comm_s = (end.split.exposed_comm - begin.split.exposed_comm).seconds(),
         .bubble_s = (end.split.bubble - begin.split.bubble).seconds(),
         .host_s = (end.split.host - begin.split.host).seconds(),
         .peak_bytes = ledger.peak(),
         .at_peak = ledger.at_peak()});
  }
  return stages;
}

Time begin_of_last_step(const FiberWorld& world, const RunRecord& record) {
  Time first = record.last_step_begin(record.last_rank()).clock;
  for (int rank = 0; rank < world.engine().num_ranks(); ++rank) {
    // A rank that takes no part in the step has no times.
    if (record.last_step_end(rank).clock == Time()) continue;
    first = min(first, record.last_step_begin(rank).clock);
  }
  return first;
}

}  // namespace shardsim
