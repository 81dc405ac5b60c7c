#pragma once

#include <cstdint>
#include <memory>

#include "sim/kernel/hash.hpp"
#include "sim/kernel/memory_ledger.hpp"
#include "sim/kernel/time.hpp"
#include "sim/kernel/trace.hpp"

namespace boost::fibers {
class context;
}

// What one virtual rank owns besides its stack: its clock, counters, ledger and rolling hash. A few
// hundred bytes, because there may be 16,384 of them; everything ranks share is stored elsewhere.
namespace shardsim {

class Operation;

/// A partition of the compute stream: the three add up to the rank's clock exactly.
struct TimeSplit {
  Time compute;       ///< Busy.
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
  /// Where this rank's compute stream stands.
  [[nodiscard]] Time now() const { return clock_; }
  [[nodiscard]] const TimeSplit& split() const { return split_; }
  [[nodiscard]] MemoryLedger& ledger() { return ledger_; }
  [[nodiscard]] const MemoryLedger& ledger() const { return ledger_; }
  /// Of the host's memory that this rank uses.
  [[nodiscard]] MemoryLedger& host_ledger() { return host_ledger_; }
  [[nodiscard]] const MemoryLedger& host_ledger() const { return host_ledger_; }
  /// Rolls everything the rank does, in program order.
  [[nodiscard]] RollingHash& hash() { return hash_; }
  [[nodiscard]] const RollingHash& hash() const { return hash_; }

  /// Occupies the compute stream for `price`. `name` must outlive the run.
  void compute(const char* name, Time price);
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
  void memory_changed(MemoryCategory category, std::int64_t bytes_now) override;

  int index_;
  bool finished_ = false;
  Time clock_;
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
