#pragma once

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
#include "backends/group_traffic.hpp"
#include "backends/program/program_tables.hpp"

// Operations and groups of a replay. They follow the rules of Operation (sim/kernel/operation.hpp)
// and of FiberGroup, without fibers, buffers and reports: what does not fit ends the replay, and a
// run explains it.
namespace shardsim {

struct ReplayGroup;
struct ReplayRank;

struct ReplayOperation {
  enum class Kind : std::uint8_t { collective, transfer, join };

  Kind kind = Kind::collective;
  bool resolved = false;
  bool even = false;  ///< Every member moves the same: `even_moved`.
  ReplayGroup* group = nullptr;
  std::int64_t sequence = 0;
  Time start;
  Time end;
  int pending = 0;                           ///< Prerequisites that are not met.
  int unwaited = 0;                          ///< Members that have not waited for it.
  ReplayRank* waiters = nullptr;             ///< Linked by ReplayRank::next_waiter.
  std::vector<ReplayOperation*> dependents;  ///< One entry per prerequisite of theirs.

  const ProgramCall* call = nullptr;  ///< The first caller's.

  // Collectives.
  int num_arrived = 0;
  Algorithm algorithm = Algorithm::ring;
  CollectiveShape shape;
  std::vector<AllToAllCounts> pairs;  ///< By member, where the shape has them.
  Moved even_moved;

  // Transfers.
  const ProgramMessage* message = nullptr;  ///< The first side's.
  int source = 0;
  int destination = 0;

  // Joins of the parts of a batch.
  std::vector<ReplayOperation*> parts;

  [[nodiscard]] bool is_transfer() const { return kind != Kind::collective; }
  [[nodiscard]] bool is_followed_by(const ReplayOperation& other) const;
};

/// The members of one communicator, and what they have under way.
struct ReplayGroup {
  /// `name` outlives it.
  ReplayGroup(const Cluster& cluster, std::uint64_t path, std::uint64_t id, const std::string& name,
              std::vector<int> members);

  /// Messages of one direction between two members that only one side has posted.
  struct Channel {
    RingQueue<ReplayOperation*> waiting;
    bool sender_waits = false;
    std::int64_t next_sequence = 0;
  };

  std::uint64_t path;  ///< See GroupKey.
  std::uint64_t id;
  const std::string& name;
  GroupLayout layout;
  std::optional<DoubleTree> tree;
  int num_joined = 0;  ///< Members that have formed it.
  RingQueue<ReplayOperation*> forming;
  std::int64_t first_forming = 0;
  std::map<std::pair<int, int>, Channel> channels;
  std::vector<TrafficCounters> counters;  ///< By member.
  std::unique_ptr<GroupLinks> off_ring;   ///< Null until something has left the ring.
  /// By sequence of a split and color.
  std::map<std::pair<std::int64_t, int>, ReplayGroup*> children;

  [[nodiscard]] int size() const { return layout.size(); }
  [[nodiscard]] const DoubleTree& double_tree();
  [[nodiscard]] GroupLinks& links();
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
