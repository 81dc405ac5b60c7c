#include "backends/replay/program_memory.hpp"

#include <optional>
#include <vector>

namespace shardsim {

namespace {

constexpr std::uint64_t kHashFactor = 0x9E3779B97F4A7C15U;  // Odd.

bool changes_memory(const ProgramStep& step) {
  return step.kind == ProgramStep::Kind::allocate || step.kind == ProgramStep::Kind::release;
}

// The allocations and releases among a program's steps.
class MemoryChanges {
 public:
  explicit MemoryChanges(const RankProgram& program) : steps_(program.steps) { skip(); }

  [[nodiscard]] bool ended() const { return at_ == steps_.size(); }
  [[nodiscard]] const ProgramStep& operator*() const { return steps_[at_]; }
  [[nodiscard]] std::size_t step() const { return at_; }
  void operator++() {
    ++at_;
    skip();
  }

 private:
  void skip() {
    while (!ended() && !changes_memory(steps_[at_])) ++at_;
  }

  const std::vector<ProgramStep>& steps_;
  std::size_t at_ = 0;
};

// Slots tell which allocation is released, so that rows of allocations are enough.
std::uint64_t word_of(const ProgramStep& change) {
  const bool allocates = change.kind == ProgramStep::Kind::allocate;
  return (allocates ? std::uint64_t{change.row} + 1 : 0) << 32U | change.slot;
}

// Equal hashes are compared word by word, so a short one is enough.
std::uint64_t hash_of_changes(const RankProgram& program) {
  std::uint64_t hash = 0;
  for (const ProgramStep& step : program.steps) {
    if (changes_memory(step)) hash = hash * kHashFactor + word_of(step);
  }
  return hash;
}

bool have_same_changes(const RankProgram& a, const RankProgram& b) {
  if (a.tables != b.tables) return false;
  MemoryChanges of_a(a);
  MemoryChanges of_b(b);
  for (; !of_a.ended() && !of_b.ended(); ++of_a, ++of_b) {
    if (!(*of_a == *of_b)) return false;
  }
  return of_a.ended() && of_b.ended();
}

}  // namespace

ProgramMemories::Found ProgramMemories::replay(const RankProgram& program, const DeviceRoom& room) {
  LimitedDevice device(room);
  std::vector<std::optional<BlockId>> blocks(program.num_allocations);  // In use, by slot.
  Found found;
  std::size_t change = 0;
  for (MemoryChanges changes(program); !changes.ended(); ++changes, ++change) {
    const ProgramStep& step = *changes;
    if (step.kind == ProgramStep::Kind::allocate) {
      const ProgramAllocation& allocation = program.tables->allocation(step.row);
      // The ledger of the device hears of no bytes, and of no memory of the host.
      if (allocation.on_host || allocation.bytes == 0) continue;
      blocks[step.slot] = device.allocate(allocation.category, allocation.bytes);
      if (device.at_peak()) found.peak_change = change;
    } else if (blocks[step.slot]) {
      device.free(*blocks[step.slot]);
      blocks[step.slot].reset();
    }
  }
  found.use = device.use();
  return found;
}

ProgramMemories::Known& ProgramMemories::known_of(const RankProgram& program) {
  const std::uint64_t hash = hash_of_changes(program);
  const auto [first, last] = known_.equal_range(hash);
  for (auto known = first; known != last; ++known) {
    if (have_same_changes(known->second.program, program)) return known->second;
  }
  return known_.emplace(hash, Known{program, {}})->second;
}

ProgramMemory ProgramMemories::find(const RankProgram& program, const DeviceRoom& room) {
  Known& known = known_of(program);
  auto found = known.found.find(room);
  if (found == known.found.end()) {
    found = known.found.emplace(room, replay(program, room)).first;
  }
  MemoryChanges changes(program);
  for (std::size_t i = 0; i < found->second.peak_change; ++i) ++changes;
  return {found->second.use, changes.ended() ? 0 : changes.step()};
}

}  // namespace shardsim
