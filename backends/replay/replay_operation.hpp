#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/kernel/ring_queue.hpp"
#include "sim/kernel/time.hpp"

#include "sim/hardware/collective.hpp"

#include "backends/collective_shape.hpp"
#include "backends/fold.hpp"
#include "backends/group_traffic.hpp"
#include "backends/program/program_tables.hpp"

// Operations and groups of a replay. They follow the rules of Operation (sim/kernel/operation.hpp)
// and of FiberGroup, without fibers, buffers and reports: what does not fit ends the replay, and a
// run explains it.
namespace shardsim {

struct GangStream;
struct ReplayGang;
struct ReplayGroup;

/// The sizes of a collective of `size` members. `calls`: as the operation's.
class ReplayShape {
 public:
  ReplayShape(const ProgramCall& call, const std::vector<const ProgramCall*>& calls, int size);
  ReplayShape(const ReplayShape&) = delete;
  ReplayShape& operator=(const ReplayShape&) = delete;
  [[nodiscard]] const CollectiveShape& operator*() const { return shape_; }
  [[nodiscard]] const CollectiveShape* operator->() const { return &shape_; }

 private:
  std::vector<AllToAllCounts> pairs_;
  CollectiveShape shape_;
};

struct ReplayOperation {
  enum class Kind : std::uint8_t {
    collective,
    transfer,
    join,       ///< Ends when all parts of a batch have.
    departure,  ///< A buffered send, until it has left its sender.
  };

  std::size_t number = 0;  ///< Its place in the pool.
  Kind kind = Kind::collective;
  bool resolved = false;
  bool is_buffered = false;  ///< A transfer that its sender has paid for.
  ReplayGroup* group = nullptr;
  std::int64_t sequence = 0;
  Time start;
  Time end;
  int pending = 0;                           ///< Prerequisites that are not met.
  int unwaited = 0;                          ///< Members that have not waited for it.
  std::vector<ReplayGang*> waiters;          ///< One entry per gang that waits.
  std::vector<ReplayOperation*> dependents;  ///< One entry per prerequisite of theirs.

  const ProgramCall* call = nullptr;  ///< The first caller's.

  // Collectives.
  int num_arrived = 0;
  Algorithm algorithm = Algorithm::ring;
  std::vector<const ProgramCall*> calls;  ///< By member, where each has counts of its own.

  // Transfers and departures.
  const ProgramMessage* message = nullptr;  ///< The first side's.
  int source = 0;
  int destination = 0;
  Time cost;  ///< A departure's.

  std::vector<ReplayOperation*> parts;  ///< A join's.

  [[nodiscard]] bool is_transfer() const { return kind != Kind::collective; }
  [[nodiscard]] bool is_followed_by(const ReplayOperation& other) const;
};

/// The members of one communicator, and what they have under way. Traffic is counted
/// by kinds of operations: all of a kind move the same.
struct ReplayGroup {
  /// `name` outlives it. `running`: how many members there are programs for.
  ReplayGroup(const Cluster& cluster, std::uint64_t path, std::uint64_t id, const std::string& name,
              std::vector<int> members, Twins twins, int running);

  /// Collectives with the same calls and one algorithm.
  struct Collectives {
    const ProgramCall* call = nullptr;
    std::vector<const ProgramCall*> calls = {};  ///< As the operation's.
    CollectivePrice price = {};
    std::int64_t times = 0;
  };
  /// One side's messages of a channel.
  struct Messages {
    bool in_batch = false;  ///< A batch counts as one call, and its parts as none.
    TrafficClass traffic = TrafficClass::payload;
    std::int64_t bytes = 0;  ///< Each one's.
    std::int64_t times = 0;
  };
  /// Messages of one direction between two members.
  struct Channel {
    int destination = 0;
    RingQueue<ReplayOperation*> waiting = {};  ///< Only one side has posted them.
    bool sender_waits = false;
    std::int64_t next_sequence = 0;
    std::vector<Messages> received = {};
    std::vector<Messages> sent = {};
  };

  std::uint64_t path;  ///< See GroupKey.
  std::uint64_t id;
  const std::string& name;
  GroupLayout layout;
  Twins twins;  ///< Their traffic is this group's.
  int num_running;
  std::optional<DoubleTree> tree;
  int num_joined = 0;                      ///< Members that have formed it.
  const GangStream* entered_by = nullptr;  ///< The last, one member after the other;
  std::uint32_t part = 0;                  ///< there it has this number.
  RingQueue<ReplayOperation*> forming;
  std::int64_t first_forming = 0;
  std::vector<std::vector<Channel>> channels;  ///< By source.
  std::vector<Collectives> collectives;
  std::vector<std::int64_t> num_batches;  ///< By member, or empty.
  MemberCounters counters;                ///< All else, until kinds are settled.
  std::unique_ptr<GroupLinks> off_ring;   ///< Null until something has left the ring.
  /// By sequence of a split and color.
  std::map<std::pair<std::int64_t, int>, ReplayGroup*> children;

  [[nodiscard]] int size() const { return layout.size(); }
  [[nodiscard]] bool is_folded() const { return num_running < size(); }
  [[nodiscard]] const DoubleTree& double_tree();
  [[nodiscard]] GroupLinks& links();
  [[nodiscard]] Channel& channel(int source, int destination);
  /// Adds all that is counted by kinds to `counters` and `off_ring`.
  void settle_counts();

 private:
  void settle(const Collectives& kind);
};

/// Operations for reuse, so that the steady state allocates nothing.
class ReplayPool {
 public:
  [[nodiscard]] ReplayOperation& take(ReplayOperation::Kind kind, ReplayGroup& group);
  void put_back(ReplayOperation& operation) { free_.push_back(&operation); }

 private:
  std::deque<ReplayOperation> all_;
  std::vector<ReplayOperation*> free_;
};

}  // namespace shardsim
