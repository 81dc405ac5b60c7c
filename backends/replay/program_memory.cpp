#include "backends/replay/program_memory.hpp"

#include <algorithm>
#include <vector>

namespace shardsim {

namespace {

// Finds steps that repeat those before them.
class Periods {
 public:
  explicit Periods(const RankProgram& program) : steps_(program.steps) {}

  // The length of a period of steps that ends before step `at` for the second time; 0: none. Looks
  // back to the last call that was the same. Costs little where nothing repeats.
  [[nodiscard]] std::size_t ending_at(std::size_t at) {
    const ProgramStep& step = steps_[at];
    if (step.row >= last_.size()) last_.resize(step.row + 1, kNever);
    const std::size_t before = last_[step.row];
    last_[step.row] = at;
    if (before == kNever) return 0;
    const std::size_t length = at - before;
    const bool repeats = before >= length && repeats_back(before, at, length);
    return repeats ? length : 0;
  }

  // How many steps from `at` on are those `length` before.
  [[nodiscard]] std::size_t repeating_from(std::size_t at, std::size_t length) const {
    std::size_t count = 0;
    while (at + count < steps_.size() && steps_[at + count] == steps_[at + count - length]) ++count;
    return count;
  }

 private:
  static constexpr std::size_t kNever = ~std::size_t{0};

  // From the last step back: others differ soon.
  [[nodiscard]] bool repeats_back(std::size_t before, std::size_t at, std::size_t length) const {
    for (std::size_t i = 0; i < length; ++i) {
      if (!(steps_[at - i] == steps_[before - i])) return false;
    }
    return true;
  }

  const std::vector<ProgramStep>& steps_;
  std::vector<std::size_t> last_;  // By row of calls, where it was posted last.
};

class Allocations {
 public:
  Allocations(const RankProgram& program, std::int64_t capacity, std::int64_t outside)
      : program_(program),
        device_(capacity, outside),
        blocks_(program.num_allocations),
        in_use_(program.num_allocations, kNone) {}

  [[nodiscard]] ProgramMemory replay() {
    using Kind = ProgramStep::Kind;
    Periods periods(program_);
    const std::vector<ProgramStep>& steps = program_.steps;
    for (std::size_t at = 0; at < steps.size(); ++at) {
      replay(at, steps[at]);
      if (steps[at].kind != Kind::post) continue;
      const std::size_t length = periods.ending_at(at);
      if (length > 0) at += skipped(at, length, periods);
    }
    return {device_.use(), peak_step_};
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  void replay(std::size_t at, const ProgramStep& step) {
    if (step.kind == ProgramStep::Kind::allocate) {
      const ProgramAllocation& allocation = program_.tables->allocation(step.row);
      // The ledger of the device hears of no bytes, and of no memory of the host.
      if (allocation.on_host || allocation.bytes == 0) return;
      blocks_[step.slot] = device_.allocate(allocation.category, allocation.bytes);
      in_use_[step.slot] = step.row;
      if (device_.at_peak()) peak_step_ = at;
    } else if (step.kind == ProgramStep::Kind::release) {
      if (in_use_[step.slot] == kNone) return;
      device_.free(blocks_[step.slot]);
      in_use_[step.slot] = kNone;
    }
  }

  // Steps after `at` that leave all as it is: whole periods.
  [[nodiscard]] std::size_t skipped(std::size_t at, std::size_t length, const Periods& periods) {
    if (at - state_at_ < length) return 0;  // A period has many calls; one of them is looked at.
    const std::size_t repeating = periods.repeating_from(at + 1, length);
    if (repeating < length) return 0;
    std::vector<std::int64_t> state = state_now();
    const bool is_steady = at - state_at_ == length && state == state_;
    state_at_ = at;
    state_ = std::move(state);
    return is_steady ? repeating / length * length : 0;
  }

  [[nodiscard]] std::vector<std::int64_t> state_now() const {
    std::vector<std::int64_t> words;
    device_.allocator().write_state(words);
    for (std::size_t slot = 0; slot < blocks_.size(); ++slot) {
      if (in_use_[slot] != kNone) device_.allocator().write_place(blocks_[slot], words);
      words.push_back(in_use_[slot]);
    }
    return words;
  }

  const RankProgram& program_;
  LimitedDevice device_;
  std::vector<BlockId> blocks_;        // By slot.
  std::vector<std::uint32_t> in_use_;  // By slot, the row of the allocation.
  std::size_t peak_step_ = 0;
  std::size_t state_at_ = 0;
  std::vector<std::int64_t> state_;  // After step state_at_.
};

}  // namespace

ProgramMemory memory_of(const RankProgram& program, std::int64_t capacity, std::int64_t outside) {
  return Allocations(program, capacity, outside).replay();
}

}  // namespace shardsim
