#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/kernel/hash.hpp"

#include "strategies/gradient_sync/whole_state.hpp"

#include "sim/verify/expectations.hpp"
#include "sim/verify/reference.hpp"

// Keeps the pieces of state that ranks show, for the oracle.
namespace shardsim {

/// Assembles tensors from the pieces that ranks show. Elements that no rank has shown keep the
/// expected values; if several ranks show an element, the last counts (replicas are compared
/// elsewhere, bit by bit).
class PiecedState {
 public:
  /// `expected`: all tensors of the piece's kind.
  void add(const StatePiece& piece, const ReferenceTensors& expected);
  [[nodiscard]] const ReferenceKinds& kinds() const { return kinds_; }
  /// Returns all added tensors and forgets them.
  [[nodiscard]] ReferenceKinds take() { return std::exchange(kinds_, {}); }

 private:
  ReferenceKinds kinds_;
};

/// Counts which ranks show each expected element: shards must cover every tensor, and must not
/// overlap.
class Coverage {
 public:
  /// `numel`: elements of the whole tensor.
  void count(std::int64_t step, const StatePiece& piece, std::size_t numel);
  /// Each element of a kind must be held by equally many ranks, one at least; else says which is
  /// not. It must be called after all pieces are counted. `model`: the owner of the parameters.
  [[nodiscard]] std::optional<std::string> find_gap(const Expectations& expected,
                                                    const Model& model) const;

 private:
  [[nodiscard]] std::optional<std::string> find_gap(std::int64_t step, const std::string& kind,
                                                    const ReferenceTensors& tensors,
                                                    const Model& model) const;

  // By step, kind and parameter: the number of ranks that have shown each element.
  std::map<std::tuple<std::int64_t, std::string, int>, std::vector<int>> holders_;
};

/// A hash of the values of each tensor that a rank shows, in the order in which it shows them.
class Fingerprints {
 public:
  struct Entry {
    std::string_view kind;  ///< "gradient", "parameter" or the name of an optimizer state.
    StateKind state_kind;
    int parameter;
    RollingHash hash;

    [[nodiscard]] bool operator==(const Entry& other) const;
  };
  void add(const StatePiece& piece);
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

/// The key of values that ranks must share, bit by bit: kind of weights, stage or -1, shard, number
/// of tensor-parallel ranks with copies of a part, and the part or -1; for experts, the place in
/// the expert-parallel group.
using ReplicaGroup = std::tuple<WeightKind, int, int, int, int>;

/// Finds the first tensor whose replicas differ. The result does not depend on the order in which
/// ranks report. Memory: one hash per tensor of each group and step, however many ranks hold it,
/// until some differ.
class Replicas {
 public:
  /// `phase`: 0 for gradients, 1 for the state after the optimizer.
  void add(std::int64_t step, int phase, const ReplicaGroup& group, int rank,
           const Fingerprints& shown);
  /// "step 2: ranks 0 and 4 hold replicas of exp_avg of blocks.0.norm1.weight that differ"; none if
  /// none do. `model`: the owner of the parameters.
  [[nodiscard]] std::optional<std::string> find_difference(const Model& model) const;

 private:
  struct Version {
    int lowest_rank;
    std::vector<Fingerprints::Entry> entries;
  };
  struct Difference {
    std::tuple<int, int, int, int> order;  // Kind in the order of a step, parameter, both ranks.
    std::string_view kind;
  };
  using Versions = std::vector<Version>;

  [[nodiscard]] static std::optional<Difference> difference_of(Versions versions);

  std::map<std::tuple<std::int64_t, int, ReplicaGroup>, Versions> held_;
};

}  // namespace shardsim
