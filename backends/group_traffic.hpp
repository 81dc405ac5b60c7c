#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/hardware/collective.hpp"

#include "backends/communicator.hpp"
#include "backends/traffic_counters.hpp"

// Counts what the members of a group move: per member, and per link off the ring.
namespace shardsim {

/// The traffic of one member in one operation, payload and padding apart.
struct Moved {
  Traffic payload;
  std::int64_t padding_sent = 0;
};

/// A message of `bytes`, as its sender or its receiver counts it.
[[nodiscard]] Moved one_message(bool sends, std::int64_t bytes);

/// Adds `times` operations to a member's counters, or their bytes and messages without the calls.
void add_moved(TrafficCounters& counters, const Moved& moved, TrafficClass traffic,
               std::int64_t times = 1, bool is_call = true);

/// The traffic of the members of a group, kept once for neighbours that have moved the same.
class MemberCounters {
 public:
  explicit MemberCounters(int size) : size_(size), runs_{{0, {}}} {}

  /// To add what members have moved: each of those from `first` to before `end`.
  template <class Add>
  void add(int first, int end, const Add& add_to) {
    for (std::size_t run = split_at(first); run < runs_.size() && runs_[run].first < end; ++run) {
      if (end_of(run) > end) split_at(end);
      add_to(runs_[run].counters);
    }
  }
  /// Visits the members in order: those from `first` to before `end` have moved the same.
  template <class Visitor>
  void for_each(const Visitor& visit) const {
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      visit(runs_[run].first, end_of(run), runs_[run].counters);
    }
  }
  /// The sum of all members.
  [[nodiscard]] TrafficCounters sum() const;
  [[nodiscard]] std::vector<TrafficCounters> each() const;
  /// Whether no member has moved payload along the ring, or sent a message of it anywhere.
  [[nodiscard]] bool has_no_links() const;

 private:
  struct Run {
    int first = 0;
    TrafficCounters counters;
  };
  [[nodiscard]] int end_of(std::size_t run) const {
    return run + 1 == runs_.size() ? size_ : runs_[run + 1].first;
  }
  // The run that begins at `member`, now.
  std::size_t split_at(int member);

  int size_;
  std::vector<Run> runs_;  // Ascending, and without gaps.
};

/// Payload of a group that travelled off its ring: by trees, or directly. Most groups have none.
/// Others keep one entry per used link; small groups in which all send to all keep one per pair.
class GroupLinks {
 public:
  /// One end of a message, told by the member that it is.
  void add(bool sends, int from, int to, std::int64_t bytes, std::int64_t times = 1) {
    add_sum(sends, from, to, times * bytes, times);
  }
  /// The same end of several messages, of `bytes` in all.
  void add_sum(bool sends, int from, int to, std::int64_t bytes, std::int64_t messages) {
    LinkCounts& counts = link(from, to);
    (sends ? counts.sent : counts.received) += bytes;
    if (sends) counts.messages += messages;
  }
  /// Members are about to send each other something directly, all to all.
  void expect_all_pairs(int size);
  /// `member`, of `size`, took part in `times` equal all_reduces by the double tree.
  void add_tree(int size, int member, std::int64_t count, std::int64_t element_bytes,
                std::int64_t times);

  /// Adds all of it. `tree`: the group's; null if add_tree was not called.
  void add_to(LinkTable& table, const DoubleTree* tree) const;

 private:
  // Every link of a tree carries the same: what one member counted holds for all links it has.
  struct TreeSide {
    std::array<std::int64_t, 2> bytes{};
    std::int64_t messages = 0;
  };
  static constexpr int kMostPaired = 256;
  [[nodiscard]] LinkCounts& link(int from, int to) {
    if (paired_ == 0) return direct_link(from, to);
    return pairs_[static_cast<std::size_t>(from) * static_cast<std::size_t>(paired_) +
                  static_cast<std::size_t>(to)];
  }
  [[nodiscard]] LinkCounts& direct_link(int from, int to);

  // By sender, ascending by receiver: a sender has few.
  std::vector<std::vector<std::pair<int, LinkCounts>>> direct_;
  int paired_ = 0;                 // Members, where pairs_ has an entry for each two.
  std::vector<LinkCounts> pairs_;  // A map costs as much as all else of a large plan's step.
  std::vector<TreeSide> trees_;    // By member; empty until used.
};

/// Every link of a group that payload has travelled on. `counters`: of its members; `off_ring`:
/// null if nothing has left the ring; `tree`: null if there is none.
[[nodiscard]] LinkTable links_of(std::span<const TrafficCounters> counters,
                                 const GroupLinks* off_ring, const DoubleTree* tree);

}  // namespace shardsim
