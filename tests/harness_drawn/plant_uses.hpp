#pragma once

#include <cstddef>
#include <vector>

#include "tests/harness_drawn/plant.hpp"

// Which calls of a plan use which buffers.
namespace shardsim::drawn {

/// A buffer of a call that has elements, and what the call does with it.
struct BufferUse {
  Elements part;
  bool reads = false;
  bool writes = false;
};

[[nodiscard]] std::vector<BufferUse> uses_of(const ProgramPlan& plan, int rank,
                                             const PlannedCall& call);
/// The first use that a change is about; null if there is none.
[[nodiscard]] const BufferUse* use_for(PlantKind kind, const std::vector<BufferUse>& uses);
/// Whether another call that is under way uses this buffer.
[[nodiscard]] bool shares_buffer(const RankPlan& mine, std::size_t action, int buffer);
/// Whether an action has to do with a buffer of the call.
[[nodiscard]] bool share_buffers(const Action& action, const PlannedCall& call);

[[nodiscard]] inline const RankPlan& rank_at(const ProgramPlan& plan, int rank) {
  return plan.ranks[static_cast<std::size_t>(rank)];
}
[[nodiscard]] inline int size_of_group(const ProgramPlan& plan, const PlannedCall& call, int rank) {
  return static_cast<int>(plan.members(call.group, rank).size());
}

}  // namespace shardsim::drawn
