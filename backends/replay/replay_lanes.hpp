#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "sim/kernel/random.hpp"
#include "sim/kernel/rank_clock.hpp"

#include "backends/program/program_tables.hpp"
#include "backends/replay/factor_table.hpp"
#include "backends/replay/replay_gang.hpp"

// Many draws of faults in one replay. The actions of ranks, and the operations that meet, depend on
// no time, so they are found out once for all draws; each draw is a lane with times of its own. A
// lane has clocks, and no memory, traffic and hash: those are the same in every draw.
namespace shardsim {

/// The faults of one draw.
struct LaneFaults {
  /// By rank: its computing takes so many times as long, the machine's own faults included. Empty:
  /// those alone.
  std::vector<double> slowdown;
  std::uint64_t key = 0;  ///< The key of its jitter.
};

struct LaneOptions {
  std::vector<LaneFaults> lanes;
  const FactorTable* compute = nullptr;        ///< The jitter of each operation that computes,
  const FactorTable* communication = nullptr;  ///< and of each communication. Null: none.
  std::int64_t step = 0;                       ///< The step whose time is asked for.
};

class ReplayLanes {
 public:
  explicit ReplayLanes(LaneOptions options) : options_(std::move(options)) {}

  /// By lane: the time of the step, on the rank that ends it last.
  [[nodiscard]] std::vector<Time> step_times() const;

  // --- For ReplayWorld -------------------------------------------------------------------------

  /// Once, before all others. Gangs, ranks and network stay as they are from now on.
  void begin(const Cluster& cluster, std::deque<ReplayGang>& gangs, ReplayCodes& codes);
  void run(const ReplayGang& gang, std::uint32_t stretch);
  /// An operation that the pool gives out.
  void open(const ReplayOperation& operation);
  /// As ReplayWorld::order, without what is under way; it begins a collective, too.
  void post(ReplayGang& gang, std::size_t member, const GangStream& stream,
            const ReplayOperation& operation);
  /// As ReplayWorld::order_freely.
  void post_freely(ReplayGang& gang, const GangWork& work);
  void follow(const ReplayOperation& operation, const ReplayOperation& prior);
  void launch(const ReplayOperation& operation, Time price);
  /// The end of a batch.
  void join(const ReplayOperation& operation);
  void wait(ReplayGang& gang, const GangWork& work, bool is_transfer);
  void mark(const ReplayGang& gang, const ProgramMark& mark);

 private:
  using LaneClock = StreamClock<ClockView>;
  struct Member {
    int rank = 0;
    int num_beside = 0;  // In all lanes.
    // By lane; apart, as most loops need one or two of them.
    std::vector<Time> clocks;
    std::vector<Time> hosts;
    std::vector<ComputedBeside> computed;
    std::vector<const ReplayCode*> codes;  // Empty: the gang's.
    std::vector<DrawSequence> jitter;      // Empty: none.
    std::vector<std::vector<Time>> free;   // By stream; empty where nothing comes behind others.
    std::vector<Time> begins;
    std::vector<Time> ends;

    // Calls `act` with each lane and its clock.
    template <class Act>
    void for_each(const Act& act) {
      const std::size_t count = clocks.size();
      Time* const clock = clocks.data();
      Time* const host = hosts.data();
      ComputedBeside* const beside = computed.data();
      const int begun = num_beside;
      for (std::size_t lane = 0; lane < count; ++lane) {
        LaneClock own(ClockView{clock[lane], host[lane], begun, beside[lane]});
        act(lane, own);
        num_beside = own.num_beside();
      }
    }
  };
  struct Times {
    std::vector<Time> starts;
    std::vector<Time> ends;
  };
  [[nodiscard]] Times& times_of(const ReplayOperation& operation) {
    return times_[operation.number];
  }
  void draw_prices(const ClockStretch& stretch, std::vector<DrawSequence>& jitter);
  void make_member(const ReplayGang& gang, std::size_t member, const std::vector<bool>& behind,
                   ReplayCodes& codes);

  LaneOptions options_;
  StreamRules rules_;
  const Cluster* cluster_ = nullptr;  // The world's: until it ends.
  int num_ranks_ = 0;
  std::vector<std::vector<Member>> gangs_;
  std::deque<Times> times_;   // By number of the operation.
  std::vector<Time> prices_;  // By lane, of a stretch.
};

}  // namespace shardsim
