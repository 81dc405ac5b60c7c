#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backends/program/program.hpp"
#include "backends/rank_span.hpp"

// How the groups of a trace, which are lists of ranks, are formed by splits of the world.
namespace shardsim {

/// The span with these members, in this order, if they lie on a grid of up to four axes. REQUIRES:
/// ranks that are not negative.
[[nodiscard]] std::optional<RankSpan> span_of(const std::vector<int>& members);

/// Whether such groups share all ranks among themselves, so that each is told by the one at rank 0.
[[nodiscard]] bool lies_as_its_kind(const RankSpan& span);

/// Splits that form all groups, as few as it takes. Groups of one split are of one
/// size and have no member in common. A group of all ranks is one, too: its calls go beside those
/// of the world.
class TraceGroups {
 public:
  /// Throws UsageError (E1381) for groups that lie irregularly, or have ranks that are not there.
  TraceGroups(const std::map<std::string, std::vector<int>>& groups, int num_ranks);

  [[nodiscard]] std::size_t num_splits() const { return splits_.size(); }
  /// The group that the split cuts up: 0 is the world; 1 has all ranks, too, and is formed first
  /// where some groups do not lie as others of their kind.
  [[nodiscard]] int parent_of(std::size_t split) const { return splits_[split].parent; }
  /// The group that `rank` joins in a split, for a split of the world in the form in which all
  /// groups of its kind lie; none: it joins none of them.
  [[nodiscard]] RankSpan joined(std::size_t split, int rank) const;
  /// The same as a group of the rank's program.
  [[nodiscard]] ProgramGroup group_in(std::size_t split, int rank) const;
  /// The number of a group in the programs of its members: 0 is the world. Throws UsageError
  /// (E1381) where there is no such group, or `rank` is no member.
  [[nodiscard]] int number_of(const std::string& group, int rank, const std::string& place) const;
  /// The group that lies for `rank` as `group` does for its members; "" if there is none.
  [[nodiscard]] std::string counterpart(const std::string& group, int rank) const;
  /// The place of `rank` in the group with this number in its program; -1: it joins none.
  [[nodiscard]] int place_in(int number, int rank) const;
  /// Which of the others has the place of `rank` in the most splits; the first of such.
  [[nodiscard]] std::size_t most_alike(int rank, const std::vector<int>& others) const;
  [[nodiscard]] const std::vector<int>& members_of(const std::string& group) const;

 private:
  struct Group {
    std::string name;
    std::vector<int> members;
    RankSpan span;
    int number = 0;        // 1 + its split; 0: the world.
    bool is_told = false;  // By the form of its kind at rank 0, for each of its members.
  };
  int num_ranks_;
  std::map<std::string, Group> groups_;
  struct Split {
    int parent = 0;
    std::string name;                  // That of its group with the lowest rank, and how many more.
    std::vector<const Group*> groups;  // By rank, its group or null,
    std::vector<int> places;           // and its place there or -1.
  };
  [[nodiscard]] Split empty_split() const;
  [[nodiscard]] static std::string name_of(const Split& split);
  // Adds a group to the first split that has room for it.
  void add(Group& group);
  void form_all_first();

  std::vector<Split> splits_;
};

}  // namespace shardsim
