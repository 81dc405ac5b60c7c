#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/communicator.hpp"
#include "backends/program/program_tables.hpp"
#include "backends/runtime.hpp"

// Records the program of a rank without running the others: nothing that a rank receives without
// data changes what it does, and it sees no clock. So each call is written down and its work is
// done at once, on the caller's stack.
namespace shardsim {

/// A rank asks for what only a run can answer, or ends as only a run can explain. Not derived from
/// std::exception: strategies must not mistake it for a failure of their own.
struct NotRecordable {
  std::string reason;  ///< The end of a sentence.
};

/// Writes a program step by step.
class ProgramWriter {
 public:
  ProgramWriter(RankProgram& program, ProgramTables& tables) : program_(program), tables_(tables) {}
  ProgramWriter(const ProgramWriter&) = delete;
  ProgramWriter& operator=(const ProgramWriter&) = delete;

  [[nodiscard]] const ProgramTables& tables() const { return tables_; }
  void compute(const ComputeOp& op);
  /// The row of an allocation,
  std::uint32_t row_of(const ProgramAllocation& allocation);
  /// and one that has it. Returns its slot.
  std::uint32_t allocate(std::uint32_t row);
  /// The next allocation has been written: it is that of `slot`.
  void expect_allocation(std::uint32_t slot) { expected_ = slot; }
  void release(std::uint32_t slot);
  /// `after`: the slot of the work that the call comes behind; kNoWork: none. Returns the slot of
  /// the call's own work.
  std::uint32_t post(int group, const Call& call, std::uint32_t after);
  void wait(std::uint32_t slot);
  /// Returns the group.
  int join(int parent, const std::string& name, const RankSpan& members);
  void synchronize() { add(ProgramStep::Kind::synchronize); }
  // A program has as many streams and events as it uses.
  void use_stream(std::uint32_t stream) {
    program_.num_streams = std::max(program_.num_streams, stream + 1);
    add(ProgramStep::Kind::use_stream, 0, stream);
  }
  void record_event(std::uint32_t event) {
    program_.num_events = std::max(program_.num_events, event + 1);
    add(ProgramStep::Kind::record_event, 0, event);
  }
  void wait_event(std::uint32_t event) { add(ProgramStep::Kind::wait_event, 0, event); }
  void tally(const char* name, std::int64_t first, std::span<const std::int64_t> amounts);
  void mark(const ProgramMark& mark);

  /// Steps that were written before, by their rows; the writer takes and puts back the slots.
  class Again {
   public:
    /// `count` of them follow.
    Again(ProgramWriter& writer, std::size_t count)
        : writer_(writer), next_(writer.places_for(count)) {
      writer.tell_growth();
    }
    void add(ProgramStep::Kind kind, std::uint32_t row, std::uint32_t slot = 0) {
      *next_++ = {kind, slot, row};
    }
    std::uint32_t allocate(std::uint32_t row) {
      return add_with(writer_.allocations_.take(), ProgramStep::Kind::allocate, row);
    }
    std::uint32_t post(std::uint32_t row) {
      return add_with(writer_.works_.take(), ProgramStep::Kind::post, row);
    }
    void release(std::uint32_t slot) {
      add(ProgramStep::Kind::release, 0, slot);
      writer_.allocations_.put_back(slot);
    }
    void wait(std::uint32_t slot) {
      add(ProgramStep::Kind::wait, 0, slot);
      writer_.works_.put_back(slot);
    }

   private:
    std::uint32_t add_with(std::uint32_t slot, ProgramStep::Kind kind, std::uint32_t row) {
      add(kind, row, slot);
      return slot;
    }
    ProgramWriter& writer_;
    ProgramStep* next_;
  };

  /// Tells the number of steps each time that it has about doubled; it may throw to end the
  /// recording.
  void watch_growth(std::function<void(std::size_t)> on_growth) {
    on_growth_ = std::move(on_growth);
  }

  /// Steps so far, and the one at a place. The program has them when it is finished.
  [[nodiscard]] std::size_t num_steps() const { return num_steps_; }
  [[nodiscard]] const ProgramStep& step(std::size_t at) const { return program_.steps[at]; }

  /// Ends the program. Throws NotRecordable if a work was never waited for.
  void finish();

  static constexpr std::uint32_t kNoWork = ~std::uint32_t{0};

 private:
  // Numbers that are in use; one that was put back is taken next.
  class Slots {
   public:
    std::uint32_t take() {
      if (num_free_ > 0) return free_[--num_free_];
      free_.push_back(0);
      return num_ever() - 1;
    }
    void put_back(std::uint32_t slot) { free_[num_free_++] = slot; }
    [[nodiscard]] bool all_free() const { return num_free_ == free_.size(); }
    [[nodiscard]] std::uint32_t num_ever() const {
      return static_cast<std::uint32_t>(free_.size());
    }

   private:
    std::vector<std::uint32_t> free_;  // A place for each number; those in front are free.
    std::size_t num_free_ = 0;
  };
  void add(ProgramStep::Kind kind, std::uint32_t slot = 0, std::uint32_t row = 0) {
    *places_for(1) = {kind, slot, row};
  }

  // The next `count` of them, to be filled in.
  [[nodiscard]] ProgramStep* places_for(std::size_t count) {
    if (num_steps_ + count > program_.steps.size()) grow(count);
    num_steps_ += count;
    return program_.steps.data() + (num_steps_ - count);
  }
  void grow(std::size_t count);
  // Not where steps are added: a destructor may add one, and must not throw.
  void tell_growth() {
    if (!std::exchange(has_grown_, false) || !on_growth_) return;
    on_growth_(num_steps_);
  }

  std::function<void(std::size_t)> on_growth_;
  bool has_grown_ = false;
  RankProgram& program_;  // With steps to spare.
  std::size_t num_steps_ = 0;
  ProgramTables& tables_;
  Slots works_;
  Slots allocations_;
  static constexpr std::uint32_t kNew = ~std::uint32_t{0};
  std::uint32_t expected_ = kNew;  // An allocation's slot.
};

/// The programs of several ranks of one training, with the same tables. It outlives what a body
/// leaves behind, against the rules: communicators and works. Work that a body does through
/// Runtime::repeats is mostly not run.
class Recorder {
 public:
  explicit Recorder(int num_ranks);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder();

  /// As FiberWorld::RankBody, and marks are written by the last argument.
  using RankBody = std::function<void(Runtime&, Communicator&, ProgramWriter&)>;
  /// Throws NotRecordable, and what the body throws.
  [[nodiscard]] RankProgram record(int rank, const RankBody& body);

  /// Nobody needs the program any more: the next one is written where it was.
  void reuse(RankProgram program) { spare_ = std::move(program.steps); }

  /// The program of a rank before its first step, for who writes it in another way.
  [[nodiscard]] RankProgram begin(int rank) const;
  [[nodiscard]] ProgramTables& tables() { return *tables_; }

 private:
  class Recording;
  class RecordedCommunicator;

  [[nodiscard]] RankProgram record(int rank, const RankBody& body, bool repeats);

  int num_ranks_;
  std::size_t most_steps_ = 0;  // A program's so far.
  std::vector<ProgramStep> spare_;
  std::shared_ptr<ProgramTables> tables_;
  std::vector<std::unique_ptr<Recording>> recordings_;  // Those whose programs left something.
};

}  // namespace shardsim
