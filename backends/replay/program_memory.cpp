#include "backends/replay/program_memory.hpp"

#include <optional>
#include <vector>

namespace shardsim {

ProgramMemory memory_of(const RankProgram& program, std::int64_t capacity, std::int64_t outside) {
  LimitedDevice device(capacity, outside);
  std::vector<std::optional<BlockId>> blocks(program.num_allocations);  // In use, by slot.
  std::size_t peak_step = 0;
  for (std::size_t at = 0; at < program.steps.size(); ++at) {
    const ProgramStep& step = program.steps[at];
    if (step.kind == ProgramStep::Kind::allocate) {
      const ProgramAllocation& allocation = program.tables->allocation(step.row);
      // The ledger of the device hears of no bytes, and of no memory of the host.
      if (allocation.on_host || allocation.bytes == 0) continue;
      blocks[step.slot] = device.allocate(allocation.category, allocation.bytes);
      if (device.at_peak()) peak_step = at;
    } else if (step.kind == ProgramStep::Kind::release && blocks[step.slot]) {
      device.free(*blocks[step.slot]);
      blocks[step.slot].reset();
    }
  }
  return {device.use(), peak_step};
}

}  // namespace shardsim
