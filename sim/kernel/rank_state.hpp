#pragma once

#include <bit>
#include <cstdint>
#include <memory>

#include "sim/kernel/device_streams.hpp"
#include "sim/kernel/hash.hpp"
#include "sim/kernel/memory_ledger.hpp"
#include "sim/kernel/rank_clock.hpp"
#include "sim/kernel/time.hpp"
#include "sim/kernel/trace.hpp"

// The state of one virtual rank besides its stack: clock, counters, ledger and rolling hash. A few
// hundred bytes, because there may be 16,384 of them; everything ranks share is stored elsewhere.
namespace shardsim {

class Operation;
struct RankFiber;

class RankState : private MemoryListener {
 public:
  explicit RankState(int index)
      : index_(index), ledger_(hash_.stretch()), host_ledger_(hash_.stretch()) {}
  RankState(const RankState&) = delete;
  RankState& operator=(const RankState&) = delete;
  ~RankState() override = default;

  [[nodiscard]] int index() const { return index_; }
  [[nodiscard]] RankClock& clock() { return clock_; }
  /// The compute stream's time.
  [[nodiscard]] Time now() const { return clock_.now(); }
  [[nodiscard]] const TimeSplit& split() const { return clock_.split(); }
  [[nodiscard]] MemoryLedger& ledger() { return ledger_; }
  [[nodiscard]] const MemoryLedger& ledger() const { return ledger_; }
  /// The ledger of the host's memory that this rank uses.
  [[nodiscard]] MemoryLedger& host_ledger() { return host_ledger_; }
  [[nodiscard]] const MemoryLedger& host_ledger() const { return host_ledger_; }
  /// Rolls everything the rank does, in program order.
  [[nodiscard]] RankHash& hash() { return hash_; }
  [[nodiscard]] const RankHash& hash() const { return hash_; }

  /// RankClock::launch of a kernel called `name`, a text that outlives the run.
  Time compute(const char* name, Time price, Time host_time = Time(),
               const StreamRules& rules = {});
  /// RankClock::wait, which is part of the hash.
  void wait(Time start, Time end, bool is_transfer, const StreamRules& rules) {
    hash_.wait(wait_word(start, end, now()));
    clock_.wait(start, end, is_transfer, rules);
    if (streams_ != nullptr) streams_->waited(start, end, is_transfer, clock_);
  }
  /// It has looked at an operation that begins at `start`, and found it under way, until `end`.
  void poll(Time start, Time end) {
    hash_.wait(wait_word(start, end, now()));
    clock_.advance_to(start, end);
  }
  /// The hash's word for the three times of a wait. Rotated, a change of one alone shows.
  [[nodiscard]] static std::uint64_t wait_word(Time start, Time end, Time clock) {
    const auto word = [](Time time) { return static_cast<std::uint64_t>(time.picoseconds()); };
    return word(end) ^ std::rotl(word(start), 21) ^ std::rotl(word(clock), 42);
  }

  /// From here on the device has several streams; once is enough. REQUIRES: nothing is computed
  /// yet.
  void open_streams(std::uint32_t streams, std::uint32_t events, const StreamRules& rules) {
    if (streams_ != nullptr) return;
    streams_ = std::make_unique<DeviceStreams>(streams, events, rules, clock_);
  }
  void use_stream(std::uint32_t stream);
  void record_event(std::uint32_t event);
  void wait_event(std::uint32_t event);
  /// All work so far is charged for what ran beside it: ahead of each step but work itself.
  void settle_streams() {
    if (streams_ != nullptr) streams_->charge(clock_);
  }

  /// Starts recording; the compute track comes first.
  void start_trace();
  /// Null unless traced.
  [[nodiscard]] RankTrace* trace() { return trace_.get(); }

  /// The operation this rank waits for; null while it runs.
  [[nodiscard]] const Operation* blocked_on() const { return blocked_on_; }
  [[nodiscard]] bool finished() const { return finished_; }

 private:
  friend class Engine;
  void memory_changed(MemoryCategory category, std::int64_t bytes_now) override;

  int index_;
  bool finished_ = false;
  RankClock clock_;
  RankHash hash_;
  MemoryLedger ledger_;
  MemoryLedger host_ledger_;
  std::unique_ptr<DeviceStreams> streams_;  // Null: there is one.
  std::unique_ptr<RankTrace> trace_;
  RankFiber* fiber_ = nullptr;
  Operation* blocked_on_ = nullptr;
  RankState* next_waiter_ = nullptr;
};

/// The hash of all ranks, in their order.
template <class Ranks>
[[nodiscard]] std::uint64_t trace_hash_of(const Ranks& ranks) {
  RollingHash hash;
  for (const RankState& rank : ranks) {
    hash.add(rank.hash().value());
    hash.add(rank.now().picoseconds());
  }
  return hash.value();
}

}  // namespace shardsim
