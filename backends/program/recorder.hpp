#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
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

  void compute(const ComputeOp& op);
  /// Returns the allocation's slot.
  std::uint32_t allocate(const ProgramAllocation& allocation);
  void release(std::uint32_t slot) {
    add(ProgramStep::Kind::release, slot);
    allocations_.put_back(slot);
  }
  /// `after`: the slot of the work that the call comes behind; kNoWork: none. Returns the slot of
  /// the call's own work.
  std::uint32_t post(int group, const Call& call, std::uint32_t after);
  void wait(std::uint32_t slot) {
    add(ProgramStep::Kind::wait, slot);
    works_.put_back(slot);
  }
  /// The call that is posted next comes behind the work in `slot`.
  void follow(std::uint32_t slot) { add(ProgramStep::Kind::follow, slot); }
  /// Returns the group.
  int join(int parent, const std::string& name, const RankSpan& members);
  void synchronize() { add(ProgramStep::Kind::synchronize); }
  void tally(const char* name, std::int64_t first, std::span<const std::int64_t> amounts);
  void mark(const ProgramMark& mark);

  // Steps that were written before, by their rows. The last one is for kinds without a slot.
  std::uint32_t allocate_row(std::uint32_t row) {
    const std::uint32_t slot = allocations_.take();
    add(ProgramStep::Kind::allocate, slot, row);
    return slot;
  }
  std::uint32_t post_row(std::uint32_t row) {
    const std::uint32_t slot = works_.take();
    add(ProgramStep::Kind::post, slot, row);
    return slot;
  }
  void add_row(ProgramStep::Kind kind, std::uint32_t row) { add(kind, 0, row); }

  /// Ends the program. Throws NotRecordable if a work was never waited for.
  void finish();

  static constexpr std::uint32_t kNoWork = ~std::uint32_t{0};

 private:
  // Numbers that are in use; one that was put back is taken next.
  class Slots {
   public:
    std::uint32_t take() {
      if (free_.empty()) return num_ever_++;
      const std::uint32_t slot = free_.back();
      free_.pop_back();
      return slot;
    }
    void put_back(std::uint32_t slot) { free_.push_back(slot); }
    [[nodiscard]] bool all_free() const { return free_.size() == num_ever_; }
    [[nodiscard]] std::uint32_t num_ever() const { return num_ever_; }

   private:
    std::vector<std::uint32_t> free_;
    std::uint32_t num_ever_ = 0;
  };
  void add(ProgramStep::Kind kind, std::uint32_t slot = 0, std::uint32_t row = 0) {
    const ProgramStep step{kind, slot, row};
    program_.steps.push_back(step);
  }

  RankProgram& program_;
  ProgramTables& tables_;
  Slots works_;
  Slots allocations_;
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

  /// The program of a rank before its first step, for who writes it in another way.
  [[nodiscard]] RankProgram begin(int rank) const;
  [[nodiscard]] ProgramTables& tables() { return *tables_; }

 private:
  class Recording;
  class RecordedCommunicator;

  [[nodiscard]] RankProgram record(int rank, const RankBody& body, bool repeats);

  int num_ranks_;
  std::size_t most_steps_ = 0;  // A program's so far.
  std::shared_ptr<ProgramTables> tables_;
  std::vector<std::unique_ptr<Recording>> recordings_;  // Those whose programs left something.
};

}  // namespace shardsim
