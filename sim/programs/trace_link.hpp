#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/kernel/dtype.hpp"

#include "sim/hardware/collective_rows.hpp"

#include "sim/programs/program_set.hpp"

// Traces of other programs, in the terms that Chakra and Kineto share, and the programs that they
// are linked to: who waits for what, who is in which group, which calls are one operation.
namespace shardsim {

/// One operation of one rank.
struct TraceNode {
  enum class Kind : std::uint8_t {
    none,    ///< It has no time; what comes after it comes after what is before it.
    device,  ///< Computing of the device,
    host,    ///< or of its host.
    collective,
    send,
    recv,
    mark,
  };
  Kind kind = Kind::none;
  std::string name;
  /// Earlier nodes of the rank that end before this one begins, in the order in which they are
  /// waited for.
  std::vector<std::size_t> after;
  std::int64_t device_ps = 0;  ///< As it was recorded.
  std::int64_t host_ps = 0;    ///< The host's time before it, or all of a host's node.
  /// The node as a row of a program file: operation, call without its group, or mark.
  /// Empty: not known, and the rest says it.
  std::string row;

  std::string group;  ///< In TraceSet::groups; for communication.
  CollectiveKind collective = collective::kBarrier;
  std::int64_t bytes = 0;  ///< The rank's input; of a message all of it.
  int root = 0;            ///< Its place in the group.
  int peer = -1;           ///< World rank.

  // Only ranks in program order have these.
  int part_of_batch = -1;  ///< 0, 1, ...: messages that are posted at once.
  bool follows = false;    ///< It begins behind the last of `after`, not behind the device.
  std::vector<std::size_t> host_waits;  ///< After so many waits of this node, the host waits.
};

struct TraceRank {
  int rank = 0;
  std::string place;  ///< Its file, for messages.
  /// Nodes stand in the order in which the program has them, and `after` has all that the device
  /// waits for; else in any order that dependencies allow.
  bool in_program_order = false;
  std::vector<TraceNode> nodes;
};

struct TraceSet {
  std::string name;
  std::string settings;  ///< Keys of a program file's header, as a JSON object; empty: none.
  std::map<std::string, std::vector<int>> groups;  ///< World ranks by the group's name.
  /// Else only those of ranks with a trace: groups of others lie as these do.
  bool lists_all_groups = true;
  std::vector<TraceRank> ranks;
  std::vector<std::string> notes;
};

/// The group of all ranks, which needs no entry.
inline constexpr const char* kWholeWorld = "world";
/// Settings of traces whose times were measured: computing is as slow as it was beside
/// communication.
inline constexpr const char* kMeasuredSettings = R"({"overlap_is_recorded": true})";

/// Sorts the ranks, and gives those without a trace that of the rank which is in the most equal
/// places of its groups, with groups and peers of their own. `num_ranks`: 0: as many as traces and
/// groups name. Throws UsageError (E1383).
void complete_ranks(TraceSet& traces, int num_ranks);
/// A name for a group that only its ranks know: that and its members.
[[nodiscard]] std::string name_of_group(const std::string& name, const std::vector<int>& members);
/// Forgets groups over which nobody communicates.
void drop_idle_groups(TraceSet& traces);

/// REQUIRES: all ranks in order. Throws UsageError: E1378 as bad_program, E1381 for groups that are
/// not known or lie irregularly, and for members of a group that make different numbers of
/// collectives.
[[nodiscard]] ProgramSet link_traces(const TraceSet& traces);

}  // namespace shardsim
