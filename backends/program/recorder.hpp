#pragma once

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
  void release(std::uint32_t slot);
  /// `after`: the slot of the work that the call comes behind; kNoWork: none. Returns the slot of
  /// the call's own work.
  std::uint32_t post(int group, const Call& call, std::uint32_t after);
  void wait(std::uint32_t slot);
  /// Returns the group.
  int join(int parent, const std::string& name, const RankSpan& members);
  void synchronize() { add(ProgramStep::Kind::synchronize); }
  void tally(const char* name, std::int64_t first, std::span<const std::int64_t> amounts);
  void mark(const ProgramMark& mark);

  /// Ends the program. Throws NotRecordable if a work was never waited for.
  void finish();

  static constexpr std::uint32_t kNoWork = ~std::uint32_t{0};

 private:
  // Numbers that are in use; one that was put back is taken next.
  class Slots {
   public:
    std::uint32_t take();
    void put_back(std::uint32_t slot) { free_.push_back(slot); }
    [[nodiscard]] bool all_free() const { return free_.size() == num_ever_; }
    [[nodiscard]] std::uint32_t num_ever() const { return num_ever_; }

   private:
    std::vector<std::uint32_t> free_;
    std::uint32_t num_ever_ = 0;
  };
  void add(ProgramStep::Kind kind, std::uint32_t slot = 0, std::uint32_t row = 0) {
    program_.steps.push_back({kind, slot, row});
  }

  RankProgram& program_;
  ProgramTables& tables_;
  Slots works_;
  Slots allocations_;
};

/// The programs of several ranks of one training, with the same tables. It outlives what a body
/// leaves behind, against the rules: communicators and works.
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

  int num_ranks_;
  std::shared_ptr<ProgramTables> tables_;
  std::vector<std::unique_ptr<Recording>> recordings_;  // Those whose programs left something.
};

}  // namespace shardsim
