#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/hardware/network_model.hpp"

#include "backends/program/program_tables.hpp"
#include "backends/replay/replay_rank.hpp"
#include "backends/world.hpp"

// Recorded programs in virtual time: one loop runs all ranks, each with its own clock, without
// fibers, tensors and strategies. All that it reports is bit by bit what a run of the same ranks
// reports (docs/decisions/0061-record-and-replay.md).
namespace shardsim {

/// The programs of all ranks of a run.
struct RankPrograms {
  std::vector<RankProgram> programs;  ///< With the same tables.
  std::vector<int> of_rank;           ///< By rank, which of the programs it has.
};

/// The replay ends as only a run can explain: calls that differ, ranks that wait for ever, ranks
/// with the program of another class. Not an Error: the scenario is run instead.
struct ReplayEnded {
  std::string reason;
};

struct ReplayOptions {
  Cluster cluster;
  Algorithm all_reduce_algorithm = Algorithm::automatic;
  std::vector<int> traced_ranks;
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
  [[nodiscard]] std::uint64_t trace_hash() const override;
  void for_each_link(const std::function<void(const LinkTraffic&)>& visit) const override;

 private:
  struct Launch {
    Time start;
    std::uint64_t order = 0;
    ReplayOperation* operation = nullptr;
  };

  void advance(ReplayRank& rank);
  // False: the rank waits, and does the step again.
  bool act(ReplayRank& rank, const ProgramStep& step);
  void compute(ReplayRank& rank, std::uint32_t row);
  void allocate(ReplayRank& rank, const ProgramStep& step);
  void release(ReplayRank& rank, std::uint32_t slot);
  void post(ReplayRank& rank, const ProgramStep& step);
  ReplayOperation& post_collective(ReplayRank& rank, ReplayStream& stream, const ProgramCall& call);
  ReplayOperation& post_batch(ReplayRank& rank, ReplayStream& stream, const ProgramCall& call);
  ReplayOperation& post_message(ReplayRank& rank, ReplayStream& stream, const ProgramCall& call,
                                const ProgramMessage& message);
  void order(ReplayRank& rank, ReplayStream& stream, ReplayOperation& operation);
  // False: `operation` is not resolved, and the rank will be woken.
  static bool await(ReplayRank& rank, ReplayOperation& operation);
  void finish_wait(ReplayRank& rank, ReplayStream& stream, ReplayOperation& operation);
  void account(ReplayRank& rank, ReplayStream& stream, ReplayOperation& operation);
  void release(ReplayOperation& operation);

  void settle(ReplayOperation& operation, Time time);
  void follow(ReplayOperation& operation, ReplayOperation& prior);
  void launch_next();
  [[nodiscard]] Time launch(ReplayOperation& operation);
  [[nodiscard]] Time launch_collective(ReplayOperation& operation);

  ReplayGroup& add_group(std::uint64_t path, std::uint64_t id, const std::string& name,
                         std::vector<int> members);
  // `place`: the program's group.
  static void open_stream(ReplayRank& rank, std::size_t place, ReplayGroup& group, int member);
  [[nodiscard]] const ProgramCall& split_for(const std::string& name);
  // False: the rank waits for the split, and does the step again.
  bool join(ReplayRank& rank, std::size_t place);
  void enter(ReplayRank& rank, std::size_t place, ReplayGroup& parent, std::int64_t sequence,
             const RankSpan& members, int key);
  [[nodiscard]] const std::vector<Price>& prices_of(int rank);
  [[nodiscard]] static bool is_watched(RankState& state);
  void use_code(ReplayRank& rank);
  void require_ended() const;
  void retire();

  ReplayOptions options_;
  const RankPrograms& programs_;
  std::unique_ptr<NetworkModel> network_;
  StreamRules rules_;
  bool in_order_;  // Launches come earliest start first.
  std::deque<RankState> states_;
  std::deque<ReplayRank> ranks_;
  std::deque<ReplayGroup> groups_;
  std::map<double, std::vector<Price>> prices_;  // By slowdown.
  std::map<const RankProgram*, ProgramDigest> digests_;
  std::map<std::pair<const RankProgram*, const std::vector<Price>*>, ReplayCode> codes_;
  std::map<std::string, ProgramCall> splits_;  // By the name of the group.
  ReplayPool pool_;
  std::vector<ReplayRank*> ready_;
  std::vector<Launch> launches_;  // A heap or a stack.
  std::uint64_t num_launched_ = 0;
};

}  // namespace shardsim
