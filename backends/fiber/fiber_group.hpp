#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/kernel/diagnosis.hpp"
#include "sim/kernel/ring_queue.hpp"

#include "sim/hardware/collective.hpp"
#include "sim/hardware/network_model.hpp"

#include "backends/fiber/collective_operation.hpp"
#include "backends/fiber/p2p_operation.hpp"
#include "backends/group_traffic.hpp"
#include "backends/traffic_counters.hpp"

namespace shardsim {

class FiberWorld;

/// The names of a group, the same whatever the order in which groups come about.
struct GroupKey {
  std::uint64_t id = 0;
  std::uint64_t path = 0;  ///< Equal for all groups of one split.
  std::string name;
};

/// State shared by the members of a communicator: their places, open operations, and objects for
/// the next ones, so that the steady state allocates nothing.
class FiberGroup {
 public:
  /// `twins`: groups without running ranks that this one represents, each in this one's order.
  FiberGroup(FiberWorld& world, GroupKey key, std::vector<int> members, Twins twins = {});

  [[nodiscard]] FiberWorld& world() const { return world_; }
  [[nodiscard]] std::uint64_t id() const { return key_.id; }
  /// Part of trace hashes.
  [[nodiscard]] std::uint64_t path() const { return key_.path; }
  [[nodiscard]] const std::string& name() const { return key_.name; }
  [[nodiscard]] const GroupLayout& layout() const { return layout_; }
  [[nodiscard]] int size() const { return layout_.size(); }
  [[nodiscard]] int world_rank(int member) const {
    return layout_.members[static_cast<std::size_t>(member)];
  }
  /// The member that has this rank in the world. REQUIRES: there is one.
  [[nodiscard]] int member_of(int world_rank) const;
  /// Members that run and so call: mostly all.
  [[nodiscard]] int num_callers() const { return num_callers_; }
  [[nodiscard]] bool is_folded() const { return num_callers_ < size(); }
  /// The other members that a caller represents.
  [[nodiscard]] std::span<const int> stood_for(int member) const;
  [[nodiscard]] const Twins& twins() const { return twins_; }
  /// World ranks of these members, or of all, ascending.
  [[nodiscard]] std::vector<int> world_ranks(const std::vector<int>& members) const;
  [[nodiscard]] std::vector<int> all_world_ranks() const;
  /// A report about it, with its name and all its ranks.
  [[nodiscard]] Diagnosis report(const char* code) const;
  /// The same about what a rank does now.
  [[nodiscard]] Diagnosis report(const char* code, const RankState& rank, const std::string& action,
                                 CallSite site) const;

  /// The collective at `sequence` on this group, opened by the first member that calls.
  CollectiveOperation& collective(CollectiveKind kind, std::int64_t sequence,
                                  const CallRecord& record);
  /// A member that is excused from the one at `sequence` calls the next one.
  void pass_over(CollectiveKind kind, std::int64_t sequence, const CallRecord& record) {
    // Operations are opened in order; it may have ended long ago.
    if (sequence >= first_forming_) collective(kind, sequence, record).pass_over();
  }
  /// The next message on the way from `source` to `destination` that this side has not posted.
  TransferOperation& transfer(int source, int destination, bool sends);
  JoinOperation& join(int member, const CallRecord& record);

  /// Built when first asked for.
  [[nodiscard]] const DoubleTree* tree();

  /// All operations not yet free, for diagnosis.
  [[nodiscard]] std::vector<const FiberOperation*> open_operations() const;
  /// The last collective all members joined, "" if none.
  [[nodiscard]] std::string last_matched() const;
  [[nodiscard]] const CallRecord& last_matched_record() const { return last_matched_; }
  /// The group that a resolved split made for `member`, and the rank it has there; null if its
  /// color was kNoColor. To be called once per member.
  std::pair<FiberGroup*, int> child(const CollectiveOperation& split, const std::string& name,
                                    int member);

  /// A member's traffic over communicators of this group that are gone.
  [[nodiscard]] const TrafficCounters& counters(int member) const;
  /// Bytes sent by all members, by operation.
  [[nodiscard]] SentByOperation sent_by_operation() const;
  /// Every link that payload has travelled on, of communicators that are gone.
  [[nodiscard]] LinkTable links() const;

  // For operations.
  void free_collective(CollectiveOperation& operation) { free_collectives_.push_back(&operation); }
  void free_transfer(TransferOperation& operation) { free_transfers_.push_back(&operation); }
  void free_join(JoinOperation& operation) { free_joins_.push_back(&operation); }
  /// All members have joined `operation`, the oldest one forming.
  void note_complete(const CollectiveOperation& operation);

  // For communicators.
  /// Sequence number of the member's next collective; counts up.
  std::int64_t next_sequence(int member) {
    return next_sequence_[static_cast<std::size_t>(member)]++;
  }
  [[nodiscard]] std::int64_t num_collectives(int member) const {
    return next_sequence_[static_cast<std::size_t>(member)];
  }
  /// When one of its communicators goes.
  void add_counters(int member, const TrafficCounters& counters);
  /// `operation`: a text of the program; the same text may be told by two addresses.
  void add_sent(const char* operation, std::int64_t bytes);
  /// For traffic off the ring.
  GroupLinks& off_ring();
  /// Members that have posted the collective at `sequence`.
  [[nodiscard]] std::vector<int> members_past(std::int64_t sequence) const;

 private:
  // Messages of one direction between two members that only one side has posted.
  struct Channel {
    RingQueue<TransferOperation*> waiting;
    bool sender_waits = false;
    std::int64_t next_sequence = 0;
  };

  // The group and rank that a split gave each member; dropped when all have read them.
  struct Seating {
    std::vector<std::pair<FiberGroup*, int>> seats;
    int num_taken = 0;
  };
  void seat(const CollectiveOperation& split, const std::string& name, Seating& seating);
  void seat_folded(const CollectiveOperation& split, const std::string& name, Seating& seating);
  FiberGroup& add_child(const CollectiveOperation& split, int color, const std::string& name,
                        std::vector<int> members, Twins twins);

  FiberWorld& world_;
  GroupKey key_;
  GroupLayout layout_;
  Twins twins_;
  int num_callers_ = 0;
  std::vector<std::vector<int>> stood_for_;  // By member; empty unless folded.
  std::size_t num_folded_splits_ = 0;
  std::optional<DoubleTree> tree_;
  std::deque<CollectiveOperation> collectives_;
  std::deque<TransferOperation> transfers_;
  std::deque<JoinOperation> joins_;
  std::vector<CollectiveOperation*> free_collectives_;
  std::vector<TransferOperation*> free_transfers_;
  std::vector<JoinOperation*> free_joins_;
  RingQueue<CollectiveOperation*> forming_;  // From first_forming_ on, by sequence.
  std::int64_t first_forming_ = 0;
  std::int64_t next_join_ = 0;
  std::map<std::pair<int, int>, Channel> channels_;
  std::map<std::int64_t, Seating> seatings_;  // By sequence of the split.
  CallRecord last_matched_;
  std::vector<std::int64_t> next_sequence_;
  std::vector<TrafficCounters> counters_;  // Empty until a member has moved something.
  std::vector<std::pair<const char*, std::int64_t>> sent_;  // By operation: few, found by address.
  std::unique_ptr<GroupLinks> off_ring_;                    // Null until something has.
};

}  // namespace shardsim
