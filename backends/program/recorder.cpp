#include "backends/program/recorder.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <utility>

#include "sim/kernel/error.hpp"
#include "sim/kernel/hash.hpp"

#include "backends/program/recorded_repeats.hpp"

namespace shardsim {

// --- Writing -----------------------------------------------------------------------------------

void ProgramWriter::compute(const ComputeOp& op) {
  add(ProgramStep::Kind::compute, 0, tables_.add(op));
  tell_growth();
}

std::uint32_t ProgramWriter::row_of(const ProgramAllocation& allocation) {
  return tables_.add(allocation);
}

std::uint32_t ProgramWriter::allocate(std::uint32_t row) {
  if (expected_ != kNew) return std::exchange(expected_, kNew);
  const std::uint32_t slot = allocations_.take();
  add(ProgramStep::Kind::allocate, slot, row);
  return slot;
}

void ProgramWriter::release(std::uint32_t slot) {
  add(ProgramStep::Kind::release, slot);
  allocations_.put_back(slot);
}

std::uint32_t ProgramWriter::post(int group, const Call& call, std::uint32_t after) {
  if (after != kNoWork) add(ProgramStep::Kind::follow, after);
  const std::uint32_t slot = works_.take();
  add(ProgramStep::Kind::post, slot, tables_.add(group, call));
  return slot;
}

void ProgramWriter::wait(std::uint32_t slot) {
  add(ProgramStep::Kind::wait, slot);
  works_.put_back(slot);
}

int ProgramWriter::join(int parent, const std::string& name, const RankSpan& members) {
  const auto group = static_cast<std::uint32_t>(program_.groups.size());
  program_.groups.push_back({parent, name, members});
  add(ProgramStep::Kind::join, 0, group);
  return static_cast<int>(group);
}

void ProgramWriter::tally(const char* name, std::int64_t first,
                          std::span<const std::int64_t> amounts) {
  add(ProgramStep::Kind::tally, 0,
      tables_.add(ProgramTally{name, first, {amounts.begin(), amounts.end()}}));
}

void ProgramWriter::mark(const ProgramMark& mark) {
  add(ProgramStep::Kind::mark, 0, tables_.add(mark));
}

void ProgramWriter::grow(std::size_t count) {
  has_grown_ = true;
  program_.steps.resize(std::max(num_steps_ + count, 2 * num_steps_));
}

void ProgramWriter::finish() {
  if (!works_.all_free()) throw NotRecordable{"a rank ends without waiting for all its works"};
  program_.steps.resize(num_steps_);
  program_.num_works = works_.num_ever();
  program_.num_allocations = allocations_.num_ever();
}

namespace {

// --- Recording ---------------------------------------------------------------------------------

// Writes the allocations of a ledger. The mark of each is its slot, plus 1.
class RecordedLedger final : private MemoryListener {
 public:
  RecordedLedger(ProgramWriter& writer, bool on_host) : writer_(writer), on_host_(on_host) {
    ledger_.set_listener(this);
  }
  [[nodiscard]] MemoryLedger& ledger() { return ledger_; }

 private:
  void memory_changed(MemoryCategory category, std::int64_t bytes_now) override {
    std::int64_t& before = now_.at(static_cast<std::size_t>(category));
    const std::int64_t change = bytes_now - before;
    before = bytes_now;
    AllocationMark& mark = AllocationOwner::current();
    if (mark != 0) return writer_.release(std::exchange(mark, 0) - 1);
    mark = writer_.allocate(row_of({category, on_host_, change})) + 1;
  }

  // Few sizes come again and again.
  [[nodiscard]] std::uint32_t row_of(const ProgramAllocation& allocation) {
    const auto size = static_cast<std::uint64_t>(allocation.bytes);
    Recent& recent = recent_.at((size ^ size >> 12U) % recent_.size());
    if (!(recent.allocation == allocation)) recent = {allocation, writer_.row_of(allocation)};
    return recent.row;
  }

  struct Recent {
    ProgramAllocation allocation{.bytes = -1};
    std::uint32_t row = 0;
  };
  ProgramWriter& writer_;
  bool on_host_;
  std::array<Recent, 64> recent_;
  RollingHash hash_;
  MemoryLedger ledger_{hash_};
  MemoryUse now_{};
};

class RecordedRuntime final : public Runtime {
 public:
  RecordedRuntime(ProgramWriter& writer, bool repeats)
      : writer_(writer), ledger_(writer, false), host_ledger_(writer, true) {
    if (repeats) repeats_.emplace(writer, ledger_.ledger(), host_ledger_.ledger());
  }

  [[nodiscard]] bool has_data() const override { return false; }
  [[nodiscard]] MemoryLedger* ledger() override { return &ledger_.ledger(); }
  [[nodiscard]] MemoryLedger* host_ledger() override { return &host_ledger_.ledger(); }
  [[nodiscard]] Repeats* repeats() override { return repeats_ ? &*repeats_ : nullptr; }
  /// Throws RepeatsDiffer.
  void finish() const {
    if (repeats_) repeats_->finish();
  }
  void use_stream(std::uint32_t stream) override { writer_.use_stream(stream); }
  void record_event(std::uint32_t event) override { writer_.record_event(event); }
  void wait_event(std::uint32_t event) override { writer_.wait_event(event); }
  void tally(const char* name, std::int64_t first, std::span<const std::int64_t> amounts) override {
    writer_.tally(name, first, amounts);
  }

 protected:
  void charge(const ComputeOp& op) override { writer_.compute(op); }
  // Both are known beforehand, but the host asks for them.
  [[nodiscard]] bool planned_decision(const char* /*name*/, bool planned) override {
    writer_.synchronize();
    return planned;
  }
  [[nodiscard]] std::optional<Numbers> replayed_numbers(const char* /*name*/) override {
    writer_.synchronize();
    return std::nullopt;
  }

 private:
  ProgramWriter& writer_;
  RecordedLedger ledger_;
  RecordedLedger host_ledger_;
  std::optional<RecordedRepeats> repeats_;
};

}  // namespace

// State that the communicators of one rank share. Their works tell it of each wait.
class Recorder::Recording final : public WorkOwner {
 public:
  explicit Recording(ProgramWriter& writer) : writer_(&writer) {}

  // Throws UsageError (E0510) if the program has ended.
  [[nodiscard]] ProgramWriter& writer() {
    if (writer_ == nullptr) {
      throw UsageError("E0510", "a communicator or a work is used after its program has ended",
                       "wait for every work in the rank that has posted it");
    }
    return *writer_;
  }
  void end() { writer_ = nullptr; }

  [[nodiscard]] static std::uint32_t slot_of(const void* operation) {
    return *static_cast<const std::uint32_t*>(operation);
  }
  [[nodiscard]] Work work(std::uint32_t slot) {
    while (works_.size() <= slot) works_.push_back(static_cast<std::uint32_t>(works_.size()));
    return {*this, &works_[slot]};
  }

  int num_open = 0;  // Communicators.

 private:
  void wait(void* operation) override { writer().wait(slot_of(operation)); }
  void abandon(void* /*operation*/) noexcept override {}  // ProgramWriter::finish finds it.
  [[nodiscard]] bool has_ended(void* /*operation*/) override { refuse_tests(); }
  [[nodiscard]] std::size_t first_ended(std::span<void* const> /*operations*/) override {
    refuse_tests();
  }
  // All that follows depends on when others come.
  [[noreturn]] static void refuse_tests() {
    throw NotRecordable{"it is asked which works have ended"};
  }

  ProgramWriter* writer_;            // Null: the program has ended.
  std::deque<std::uint32_t> works_;  // By slot, itself.
};

class Recorder::RecordedCommunicator final : public Communicator {
 public:
  RecordedCommunicator(Recording& recording, int group, std::string name, int rank, int size)
      : recording_(recording), group_(group), name_(std::move(name)), rank_(rank), size_(size) {
    ++recording_.num_open;
  }
  ~RecordedCommunicator() override { --recording_.num_open; }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] const std::string& name() const override { return name_; }

  Work post(const Call& call) override {
    const Work* after = call.options->after;
    const std::uint32_t behind =
        after == nullptr ? ProgramWriter::kNoWork : Recording::slot_of(after->operation());
    return recording_.work(recording_.writer().post(group_, call, behind));
  }

  [[nodiscard]] std::unique_ptr<Communicator> split(int /*color*/, int /*key*/,
                                                    const std::string& name,
                                                    CallSite /*site*/) override {
    throw NotRecordable{"group " + name + " is formed by colors, so its members are not known"};
  }

  [[nodiscard]] std::unique_ptr<Communicator> subgroup(const RankSpan& members,
                                                       const std::string& name,
                                                       CallSite /*site*/) override {
    const int group = recording_.writer().join(group_, name, members);
    if (members.size == 0) return nullptr;
    const int member = members.member_of(rank_);
    if (member < 0) throw NotRecordable{"a rank names a group " + name + " without itself"};
    return std::make_unique<RecordedCommunicator>(recording_, group, name, member, members.size);
  }

 private:
  Recording& recording_;
  int group_;
  std::string name_;
  int rank_;
  int size_;
};

Recorder::Recorder(int num_ranks)
    : num_ranks_(num_ranks), tables_(std::make_shared<ProgramTables>()) {}

Recorder::~Recorder() = default;

RankProgram Recorder::begin(int rank) const {
  return {.rank = rank,
          .tables = tables_,
          .groups = {{.name = "world", .members = RankSpan::line(num_ranks_)}},
          .steps = {}};
}

RankProgram Recorder::record(int rank, const RankBody& body) {
  try {
    return record(rank, body, /*repeats=*/true);
  } catch (const RepeatsDiffer&) {
    return record(rank, body, /*repeats=*/false);
  }
}

RankProgram Recorder::record(int rank, const RankBody& body, bool repeats) {
  RankProgram program = begin(rank);
  program.steps = std::exchange(spare_, {});
  program.steps.resize(most_steps_);  // Mostly as many as before.
  ProgramWriter writer(program, *tables_);
  Recording& recording = *recordings_.emplace_back(std::make_unique<Recording>(writer));
  try {
    RecordedRuntime runtime(writer, repeats);
    RecordedCommunicator world(recording, 0, program.groups.front().name, rank, num_ranks_);
    body(runtime, world, writer);
    runtime.finish();
    if (recording.num_open > 1) {
      throw NotRecordable{"a rank ends without destroying all its groups"};
    }
  } catch (...) {
    recording.end();
    throw;
  }
  recording.end();
  writer.finish();
  most_steps_ = std::max(most_steps_, program.steps.size());
  if (recording.num_open == 0) recordings_.pop_back();  // Nothing is left that knows it.
  return program;
}

}  // namespace shardsim
