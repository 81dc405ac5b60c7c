#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/kernel/hash.hpp"
#include "sim/kernel/memory_ledger.hpp"
#include "sim/kernel/time.hpp"
#include "sim/kernel/trace.hpp"

namespace boost::fibers {
class context;
}

// The state of one virtual rank besides its stack: clock, counters, ledger and rolling hash. A few
// hundred bytes, because there may be 16,384 of them; everything ranks share is stored elsewhere.
namespace shardsim {

class Operation;

/// A partition of the compute stream: the four add up to the rank's clock exactly.
struct TimeSplit {
  Time compute;       ///< Busy.
  Time host;          ///< Waiting for work, which the host has not issued yet.
  Time exposed_comm;  ///< Waiting inside a communication's own start and end.
  Time bubble;        ///< Waiting before the communication started: for other ranks.
};

class RankState : private MemoryListener {
 public:
  explicit RankState(int index) : index_(index), ledger_(hash_), host_ledger_(hash_) {}
  RankState(const RankState&) = delete;
  RankState& operator=(const RankState&) = delete;
  ~RankState() override = default;

  [[nodiscard]] int index() const { return index_; }
  /// The clock of this rank's compute stream.
  [[nodiscard]] Time now() const { return clock_; }
  [[nodiscard]] const TimeSplit& split() const { return split_; }
  [[nodiscard]] MemoryLedger& ledger() { return ledger_; }
  [[nodiscard]] const MemoryLedger& ledger() const { return ledger_; }
  /// The ledger of the host's memory that this rank uses.
  [[nodiscard]] MemoryLedger& host_ledger() { return host_ledger_; }
  [[nodiscard]] const MemoryLedger& host_ledger() const { return host_ledger_; }
  /// Rolls everything the rank does, in program order.
  [[nodiscard]] RollingHash& hash() { return hash_; }
  [[nodiscard]] const RollingHash& hash() const { return hash_; }

  /// The host spends this on its next work. It runs ahead of the compute stream, which waits where
  /// the host is late.
  void issue(Time host_time) {
    host_clock_ += host_time;
    if (host_clock_ <= clock_) return;
    split_.host += host_clock_ - clock_;
    clock_ = host_clock_;
  }
  /// The host's clock: nothing that it posts starts before.
  [[nodiscard]] Time issued() const { return host_clock_; }
  /// The host waits until the compute stream has done all its work.
  void synchronize() { host_clock_ = clock_; }
  /// Occupies the compute stream for `price`. `name` must outlive the run.
  void compute(const char* name, Time price);
  /// From here until the communication is waited for, computing may have to be charged for.
  void begin_beside() { ++num_beside_; }
  /// Ends the communication that ran from `start` to `end`: computing during that time took longer
  /// by `share`. No moment of computing is charged twice.
  void end_beside(Time start, Time end, double share);
  /// The compute stream waits for an operation that ran from `start` to `end`.
  void advance_to(Time start, Time end);

  /// Starts recording; the compute track comes first.
  void start_trace();
  /// Null unless traced.
  [[nodiscard]] RankTrace* trace() { return trace_.get(); }

  /// The operation this rank waits for; null while it runs.
  [[nodiscard]] const Operation* blocked_on() const { return blocked_on_; }
  [[nodiscard]] bool finished() const { return finished_; }

 private:
  friend class Engine;
  struct Interval {
    Time begin;
    Time end;
  };
  void memory_changed(MemoryCategory category, std::int64_t bytes_now) override;

  int index_;
  bool finished_ = false;
  Time clock_;  // Never behind the host's.
  Time host_clock_;
  int num_beside_ = 0;              // Communications posted and not waited for.
  std::vector<Interval> computed_;  // Beside them, in order, and not charged for.
  TimeSplit split_;
  RollingHash hash_;
  MemoryLedger ledger_;
  MemoryLedger host_ledger_;
  std::unique_ptr<RankTrace> trace_;
  boost::fibers::context* context_ = nullptr;
  Operation* blocked_on_ = nullptr;
  RankState* next_waiter_ = nullptr;
};

}  // namespace shardsim
