#pragma once

#include <deque>
#include <memory>

#include "backends/communicator.hpp"
#include "backends/decision_log.hpp"
#include "backends/runtime.hpp"
#include "backends/traffic_counters.hpp"

namespace shardsim {

/// One process's end of a run on real processes: the backend as seen by the code that composes a
/// run. Everything happens on the caller's thread.
class ProcessBackend {
 public:
  virtual ~ProcessBackend() = default;
  ProcessBackend() = default;
  ProcessBackend(const ProcessBackend&) = delete;
  ProcessBackend& operator=(const ProcessBackend&) = delete;

  [[nodiscard]] virtual int rank() const = 0;
  /// The communicator of all processes, named "world" as everywhere; to be asked for once. It and
  /// what is split from it must not outlive this.
  [[nodiscard]] virtual std::unique_ptr<Communicator> world() = 0;
  /// Throws what went wrong without anyone waiting for it: a Work that was dropped.
  virtual void finish() = 0;
  /// Traffic of communicators that are gone, in the order in which they went.
  [[nodiscard]] virtual const std::deque<GroupTraffic>& traffic() const = 0;
};

/// A rank that is a process: it computes with data and counts, in no time but its own. Its ledgers
/// are those that the simulation has, so memory can be compared to the byte.
class ProcessRuntime final : public Runtime {
 public:
  /// `record`: where decisions of `rank` are kept; null: nowhere.
  explicit ProcessRuntime(int rank = 0, DecisionLog* record = nullptr)
      : rank_(rank), record_(record) {}

  [[nodiscard]] bool has_data() const override { return true; }
  [[nodiscard]] MemoryLedger* ledger() override { return &ledger_; }
  [[nodiscard]] MemoryLedger* host_ledger() override { return &host_ledger_; }

 protected:
  void charge(const ComputeOp&) override {}
  void record_decision(const char* name, bool answer) override {
    if (record_ != nullptr) record_->add(rank_, name, answer);
  }
  void record_numbers(const char* name, const Numbers& numbers) override {
    if (record_ != nullptr) record_->add_numbers(rank_, name, numbers);
  }

 private:
  int rank_;
  DecisionLog* record_;
  RollingHash hash_;
  MemoryLedger ledger_{hash_};
  MemoryLedger host_ledger_{hash_};
};

}  // namespace shardsim
