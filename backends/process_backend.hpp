#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>

#include "backends/call.hpp"
#include "backends/communicator.hpp"
#include "backends/decision_log.hpp"
#include "backends/runtime.hpp"
#include "backends/traffic_counters.hpp"

namespace shardsim {

/// A real backend reports the progress of each call here, and asks whether the run is still alive.
/// Flight recorders, fingerprints and the notice of another rank's failure use it. All calls come
/// from the communicating thread.
class CallWatch {
 public:
  /// One send or receive of a point-to-point call.
  struct Half {
    bool sends = false;
    int peer = 0;  ///< Rank in the communicator.
    DType dtype = DType::fp32;
    std::int64_t count = 0;
  };
  struct Call {
    const std::string& group;      ///< Name of the communicator.
    std::span<const int> members;  ///< Its world ranks, by rank in it.
    int instance = 0;              ///< Index among communicators with that name and those members.
    int member = 0;                ///< This process's rank in it.
    std::int64_t sequence = 0;     ///< Index of the call in that communicator.
    const CallRecord& record;
    std::span<const Half> halves;  ///< Empty: a collective.
  };

  virtual ~CallWatch() = default;
  CallWatch() = default;
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

  virtual void posted(const Call& call) = 0;
  virtual void started(const Call& call) = 0;
  virtual void ended(const Call& call) = 0;
  /// Asked now and then while a call is waited for. Throws CommunicationError or Error if the run
  /// has been given up elsewhere.
  virtual void poll() = 0;
};

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
