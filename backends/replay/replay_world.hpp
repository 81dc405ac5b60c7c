#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sim/hardware/network_model.hpp"

#include "backends/fold.hpp"
#include "backends/program/program_tables.hpp"
#include "backends/replay/rank_programs.hpp"
#include "backends/replay/replay_gang.hpp"
#include "backends/replay/replay_lanes.hpp"
#include "backends/world.hpp"

// Recorded programs in virtual time: one loop runs all ranks, each with its own clock, without
// fibers, tensors and strategies. All that it reports is bit by bit what a run of the same ranks
// reports (docs/decisions/0061-record-and-replay.md).
namespace shardsim {

/// The replay ends as only a run can explain: calls that differ, ranks that wait for ever, ranks
/// with the program of another class. Not an Error: the scenario is run instead.
struct ReplayEnded {
  std::string reason;
};

struct ReplayOptions {
  Cluster cluster;
  Algorithm all_reduce_algorithm = Algorithm::automatic;
  bool buffered_sends = false;  ///< As FiberOptions.
  double hole_factor = 1.0;     ///< The device's time of each hole is multiplied by this.
  std::vector<int> traced_ranks;
  /// Null: all ranks have programs of their own. Else those that run, and the others do the same.
  const Fold* fold = nullptr;
  /// The fold is of share_equal_ranks: trace_hash() is that of a world where all ranks run.
  bool hashes_all = false;
  /// Those that several worlds share; null: none.
  const ReplayCodes* codes = nullptr;
  /// Draws of faults, which have times in place of the world; null: none. Then all ranks run, none
  /// is traced or watched, and prices are constant.
  ReplayLanes* lanes = nullptr;
  /// Called at each mark of a rank, whose state is that of the moment.
  std::function<void(int rank, const ProgramMark& mark)> on_mark;
  /// Called now and then.
  std::function<void()> on_progress;
};

class ReplayWorld final : public World {
 public:
  /// `programs` outlives it.
  ReplayWorld(ReplayOptions options, const RankPrograms& programs);
  ~ReplayWorld() override;

  /// Replays all ranks to their end. Throws ReplayEnded, and what prices throw. To be called once.
  void run();

  [[nodiscard]] RankState& rank(int rank) override;
  [[nodiscard]] const RankState& rank(int rank) const override;
  /// A rank that nobody watches has the ledgers of its program, and no others.
  [[nodiscard]] const MemoryLedger& ledger(int rank) const override;
  [[nodiscard]] const MemoryLedger& host_ledger(int rank) const override;
  [[nodiscard]] std::unique_ptr<WatchedMemory> watch_memory(int rank,
                                                            const DeviceRoom& room) override;
  [[nodiscard]] std::uint64_t trace_hash() const override;
  void for_equal_links(const std::function<void(const EqualLinks&)>& visit) const override;
  [[nodiscard]] std::vector<std::int64_t> sent_by_rank() const override;

 private:
  // The memory of a rank that nobody traces is that of its program.
  class ProgramWatch;
  struct Watched {
    int rank = 0;
    DeviceRoom room;
    ProgramWatch* watch = nullptr;
    std::size_t peak_step = 0;
  };
  struct Launch {
    Time start;
    std::uint64_t order = 0;
    ReplayOperation* operation = nullptr;
  };

  void make_gangs();
  void advance(ReplayGang& gang);
  // False: the gang waits, and does the step again.
  bool act(ReplayGang& gang, const ProgramStep& step);
  void compute(ReplayGang& gang, std::uint32_t row);
  void pass_hole(ReplayGang& gang, std::uint32_t row);
  static void allocate(ReplayGang& gang, const ProgramStep& step);
  static void release(ReplayGang& gang, std::uint32_t slot);

  void post(ReplayGang& gang, const ProgramStep& step);
  void post_collective(ReplayGang& gang, const ProgramCall& call, GangWork& work);
  void post_messages(ReplayGang& gang, const ProgramCall& call, GangWork& work);
  ReplayOperation& open_collective(GangStream& stream, const GangStream::Part& part,
                                   const ProgramCall& call);
  ReplayOperation& post_batch(ReplayGang& gang, std::size_t member, GangStream& stream,
                              const ProgramCall& call);
  ReplayOperation& post_message(ReplayGang& gang, std::size_t member, GangStream& stream,
                                const ProgramCall& call, const ProgramMessage& message);
  ReplayOperation& buffered(ReplayOperation& transfer, const ProgramMessage& message,
                            const ProgramCall& call, Time now);
  // As FiberStream::order.
  void order(ReplayGang& gang, std::size_t member, GangStream& stream, ReplayOperation& operation);
  void order_freely(ReplayGang& gang, GangStream& stream, GangWork& work);

  // Several streams of a device.
  void add_device(ReplayGang& gang);
  static void act_on_streams(ReplayGang& gang, const ProgramStep& step);
  static void use_stream(ReplayGang& gang, std::uint32_t stream);
  static void charge_streams(ReplayGang& gang, const ProgramStep& step);
  static void tell_streams(ReplayGang& gang, const GangStream& stream, const GangWork& work);
  void mark(ReplayGang& gang, const ProgramMark& mark);

  // False: not all of it is resolved, and the gang will be woken.
  static bool await(ReplayGang& gang, const GangWork& work);
  void finish_wait(ReplayGang& gang, GangWork& work);
  void release(ReplayOperation& operation, int members);

  [[nodiscard]] ReplayOperation& open(ReplayOperation::Kind kind, ReplayGroup& group);
  void settle(ReplayOperation& operation, Time time);
  void settle(ReplayOperation& operation, const ReplayOperation& prior);
  void follow(ReplayOperation& operation, ReplayOperation& prior);
  void launch_next();
  void launch_all();
  void launch(ReplayOperation& operation);
  static void end_batch(ReplayOperation& batch);
  [[nodiscard]] Time launch_price(ReplayOperation& operation);
  [[nodiscard]] Time collective_price(ReplayOperation& operation);
  [[nodiscard]] CollectivePrice price_of(const ReplayOperation& operation);
  [[nodiscard]] Time transfer_price(const ReplayOperation& message, Time start);
  static void trace(ReplayGang& gang, const GangStream& stream, const ReplayOperation& operation);

  ReplayGroup& add_group(std::uint64_t path, std::uint64_t id, const std::string& name,
                         std::vector<int> members, Twins twins);
  ReplayGroup& add_child(ReplayGroup& parent, std::int64_t sequence, const ProgramGroup& made,
                         const RankSpan& members, std::size_t split);
  // `place`: the program's group.
  static void open_stream(ReplayGang& gang, std::size_t place, std::size_t member,
                          ReplayGroup& group, int member_of_group);
  [[nodiscard]] const ProgramCall& split_for(const std::string& name);
  // False: the gang waits for the split, and does the step again.
  bool join(ReplayGang& gang, std::size_t place);
  void enter(ReplayGang& gang, std::size_t place, std::size_t member, std::int64_t sequence);
  [[nodiscard]] bool runs(int rank) const {
    return options_.fold == nullptr || options_.fold->runs(rank);
  }
  // Null where the rank is watched.
  [[nodiscard]] const ProgramDigest* digest_of(int rank) const;
  [[nodiscard]] double slowdown_of(int rank) const {
    return cluster_.faults == nullptr ? 1.0 : cluster_.faults->slowdown_of(rank);
  }
  [[nodiscard]] static bool is_watched(RankState& state);
  [[nodiscard]] std::int64_t num_represented(const ReplayGang& gang) const;
  void settle_members(ReplayGang& gang);
  void represent(ReplayGang& gang, const std::vector<std::vector<int>>& by);
  void hash_choices(ReplayGang& gang, const ProgramGroup& made);
  void find_memory();
  void use_code(ReplayGang& gang);
  void ask_for_peaks();
  static void answer(ReplayGang& gang);
  void require_ended() const;
  void retire();

  ReplayOptions options_;
  const RankPrograms& programs_;
  std::unique_ptr<NetworkModel> network_;
  StreamRules rules_;
  bool in_order_;                     // Launches come earliest start first.
  bool has_constant_prices_;          // For collectives.
  std::deque<RankState> states_;      // By place of a rank that runs, as the next two.
  std::vector<int> represented_;      // In a fold: for how many it runs, itself too.
  std::vector<ReplayGang*> gang_of_;  // Null until it runs.
  std::deque<ReplayGang> gangs_;
  std::deque<ReplayGroup> groups_;
  ReplayCodes codes_;
  std::vector<Watched> watched_;
  std::map<const RankProgram*, std::set<std::size_t>> asked_;  // Steps of peaks.
  std::map<std::string, ProgramCall> splits_;                  // By the name of the group.
  ReplayPool pool_;
  std::vector<ReplayGang*> ready_;
  std::vector<Launch> launches_;  // A heap or a stack.
  std::uint64_t num_launched_ = 0;
};

}  // namespace shardsim
