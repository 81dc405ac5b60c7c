#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

// The kinds of collectives, one row for each. A row says how the data travel, and what part of the
// full buffer a member gives and gets; traffic, prices, buffers and effects follow from it. Code
// that calls or prices a kind takes the row's constant, collective::kAllReduce for "all_reduce".
// Code that treats kinds differently asks the row and compares no kinds. Only Communicator names
// them, and one switch of a backend: of messages, for the parts of buffers that each kind moves; of
// NCCL, whose library has a function per kind.
namespace shardsim {

/// Trace hashes contain these numbers.
enum class CollectiveKind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  broadcast,
  reduce,
  gather,
  scatter,
  barrier,
  split,
};

/// Ring: chunks go round, once or twice. Chain: all goes along the ring, from the root or to it.
/// Star: a message between the root and each other member. Pairs: one between any two.
enum class CollectivePath : std::uint8_t { ring, chain, star, pairs, none };

/// Where the root's data go.
enum class RootRole : std::uint8_t { none, source, target };

/// A buffer of one member. Parts: one for each member, of any sizes.
enum class BufferPart : std::uint8_t { none, whole, chunk, parts };

struct CollectiveRow {
  CollectiveKind kind;
  const char* name;
  CollectivePath path;
  RootRole root;
  BufferPart input;
  BufferPart output;
  bool reduces;

  // A row stands for its kind where a call is described.
  constexpr operator CollectiveKind() const { return kind; }

  /// Whether there is one buffer, which is read and written.
  [[nodiscard]] constexpr bool in_place() const {
    return input == BufferPart::whole && output == BufferPart::whole;
  }
  /// Whether members have chunks, of equal sizes or by CallOptions::counts.
  [[nodiscard]] constexpr bool in_chunks() const {
    return input == BufferPart::chunk || output == BufferPart::chunk;
  }
  /// Whether all members end with the sum of all, for which there is a double tree, too.
  [[nodiscard]] constexpr bool reduces_to_all() const {
    return path == CollectivePath::ring && in_place();
  }
  /// How often chunks go round the ring: while they are reduced, and while they are gathered.
  [[nodiscard]] constexpr int ring_passes() const {
    if (path != CollectivePath::ring) return 0;
    return in_place() ? 2 : 1;
  }
};

/// In the order of the enumerators.
inline constexpr CollectiveRow kCollectiveRows[] = {
    {CollectiveKind::all_reduce, "all_reduce", CollectivePath::ring, RootRole::none,
     BufferPart::whole, BufferPart::whole, true},
    {CollectiveKind::reduce_scatter, "reduce_scatter", CollectivePath::ring, RootRole::none,
     BufferPart::whole, BufferPart::chunk, true},
    {CollectiveKind::all_gather, "all_gather", CollectivePath::ring, RootRole::none,
     BufferPart::chunk, BufferPart::whole, false},
    {CollectiveKind::all_to_all, "all_to_all", CollectivePath::pairs, RootRole::none,
     BufferPart::parts, BufferPart::parts, false},
    {CollectiveKind::broadcast, "broadcast", CollectivePath::chain, RootRole::source,
     BufferPart::whole, BufferPart::whole, false},
    {CollectiveKind::reduce, "reduce", CollectivePath::chain, RootRole::target, BufferPart::whole,
     BufferPart::whole, true},
    {CollectiveKind::gather, "gather", CollectivePath::star, RootRole::target, BufferPart::chunk,
     BufferPart::whole, false},
    {CollectiveKind::scatter, "scatter", CollectivePath::star, RootRole::source, BufferPart::whole,
     BufferPart::chunk, false},
    {CollectiveKind::barrier, "barrier", CollectivePath::none, RootRole::none, BufferPart::none,
     BufferPart::none, false},
    {CollectiveKind::split, "split", CollectivePath::none, RootRole::none, BufferPart::none,
     BufferPart::none, false},
};

[[nodiscard]] constexpr const CollectiveRow& row_of(CollectiveKind kind) {
  return kCollectiveRows[static_cast<std::size_t>(kind)];
}

/// "all_reduce", ...
[[nodiscard]] constexpr const char* name_of(CollectiveKind kind) { return row_of(kind).name; }

/// Whether a call of this name forms groups: that is setting up, and belongs to no axis of a run.
[[nodiscard]] constexpr bool makes_groups(std::string_view name) {
  return name == name_of(CollectiveKind::split);
}

namespace collective {
inline constexpr const CollectiveRow& kAllReduce = row_of(CollectiveKind::all_reduce);
inline constexpr const CollectiveRow& kReduceScatter = row_of(CollectiveKind::reduce_scatter);
inline constexpr const CollectiveRow& kAllGather = row_of(CollectiveKind::all_gather);
inline constexpr const CollectiveRow& kAllToAll = row_of(CollectiveKind::all_to_all);
inline constexpr const CollectiveRow& kBroadcast = row_of(CollectiveKind::broadcast);
inline constexpr const CollectiveRow& kReduce = row_of(CollectiveKind::reduce);
inline constexpr const CollectiveRow& kGather = row_of(CollectiveKind::gather);
inline constexpr const CollectiveRow& kScatter = row_of(CollectiveKind::scatter);
inline constexpr const CollectiveRow& kBarrier = row_of(CollectiveKind::barrier);
inline constexpr const CollectiveRow& kSplit = row_of(CollectiveKind::split);
}  // namespace collective

}  // namespace shardsim
