#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim/kernel/memory_ledger.hpp"

#include "sim/hardware/collective.hpp"
#include "sim/hardware/kernels/kernel_seconds.hpp"
#include "sim/hardware/network_model.hpp"

#include "backends/call.hpp"
#include "backends/communicator.hpp"
#include "backends/runtime.hpp"

// Communicators of one rank that is alone: calls take the network's time, and move nothing.
namespace shardsim {

/// The groups that bring tokens to their experts, and results back: one, or one across nodes and
/// one inside of them. Each is a stream of its own.
inline constexpr std::size_t kNumTokenStreams = 3;
/// By a group's name; -1: it is none.
[[nodiscard]] int token_stream_of(const std::string& name);

/// The time that a rank spends on tokens that travel.
struct TokenTime {
  Time waited;   ///< For them,
  Time at_once;  ///< and the part of it in calls beside which nothing can be computed.
  std::array<Time, kNumTokenStreams> under_way = {};  ///< The time of all calls, by stream.

  /// That of the busiest stream.
  [[nodiscard]] Time longest() const;
  TokenTime& operator+=(const TokenTime& other);
  friend TokenTime operator-(TokenTime later, const TokenTime& earlier);
};

/// The compute stream of the only rank.
struct ProbeClock {
  Time now;
  Time waited;          ///< The part of it spent in communication,
  Time waited_at_once;  ///< and that in calls which nothing was computed beside, nor can be.
  TokenTime tokens = {};
  /// How often whoever has this clock was told something, in which it might have waited.
  std::int64_t num_told = 0;
  /// While this is set, groups count how long the collectives that are posted are under way.
  bool counts = false;
  struct UnderWay {
    Time time;
    std::int64_t calls = 0;
  };
  /// Those that were waited for, by group: a group's collectives come one after the other.
  std::deque<UnderWay> under_way = {};
};

/// The compute stream and memory of that rank. The host costs nothing: it may be far ahead.
class ProbeRuntime final : public Runtime {
 public:
  /// `clock` outlives it. Operations named `free_op` cost nothing; null: none.
  ProbeRuntime(const Device& device, ProbeClock& clock, const char* free_op = nullptr)
      : prices_(device), clock_(clock), free_op_(free_op) {}

  [[nodiscard]] bool has_data() const override { return false; }
  [[nodiscard]] MemoryLedger* ledger() override { return &ledger_; }

 protected:
  void charge(const ComputeOp& op) override {
    if (free_op_ != nullptr && same_text(op.name, free_op_)) return;
    clock_.now += prices_.price(op).device;
  }

 private:
  PriceCache prices_;
  ProbeClock& clock_;
  const char* free_op_;
  RollingHash hash_;
  MemoryLedger ledger_{hash_};
};

/// A group of ranks as one member sees it if all others do the same at the same moment: every call
/// starts at once on a stream of its own. That is its least cost in a run, where others may come
/// later.
class PricedGroup final : public Communicator, private WorkOwner {
 public:
  /// `clock`, `network` and `cluster` outlive it. `network` null: calls take no time. `rank`: which
  /// of the members this one is.
  PricedGroup(ProbeClock& clock, NetworkModel* network, const Cluster& cluster,
              std::vector<int> members, int rank, Algorithm algorithm, std::string name);

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return layout_.size(); }
  [[nodiscard]] const std::string& name() const override { return name_; }

  Work post(const Call& call) override;
  /// Its calls take no time.
  [[nodiscard]] std::unique_ptr<Communicator> subgroup(const RankSpan& members,
                                                       const std::string& name,
                                                       CallSite site) override;
  /// Throws an internal Error: members of groups in a probe are known.
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, const std::string& name,
                                                    CallSite site) override;

 private:
  void wait(void* operation) override;
  void abandon(void* /*operation*/) noexcept override {}

  struct Posted {
    Time at;
    Time end;
    Time duration;
    std::int64_t num_told = 0;
    bool counts = false;
  };
  [[nodiscard]] Work take(Time duration, const Call& call);
  [[nodiscard]] Time duration_of(const Call& call) const;
  [[nodiscard]] Time transfer(const P2pOp& half) const;

  ProbeClock& clock_;
  NetworkModel* network_;
  const Cluster& cluster_;
  GroupLayout layout_;
  int rank_;
  DoubleTree tree_;
  Algorithm algorithm_;
  std::string name_;
  ProbeClock::UnderWay& under_way_;  // The clock's, of this group.
  int token_stream_;                 // -1: it brings no tokens.
  Time free_;                        // The time at which the stream is free.
  std::deque<Posted> calls_;         // All of them: addresses stay.
};

/// All ranks, seen by one of them. Its groups have the prices of their members' places on the
/// cluster.
class PricedWorld final : public Communicator {
 public:
  /// `is_priced`: by a group's name; calls of the others take no time. All outlive it.
  struct Prices {
    ProbeClock& clock;
    NetworkModel& network;
    const Cluster& cluster;
    Algorithm algorithm;
    std::function<bool(const std::string& name)> is_priced;
  };

  PricedWorld(const Prices& prices, int num_ranks, int rank)
      : prices_(prices), num_ranks_(num_ranks), rank_(rank) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return num_ranks_; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::unique_ptr<Communicator> subgroup(const RankSpan& members,
                                                       const std::string& name,
                                                       CallSite site) override;
  /// Both throw an internal Error: a probe only forms groups of known members.
  Work post(const Call& call) override;
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, const std::string& name,
                                                    CallSite site) override;

 private:
  Prices prices_;
  int num_ranks_;
  int rank_;
  std::string name_ = "world";
};

}  // namespace shardsim
