#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <vector>

// Records that differ because one is of a root of its groups' calls and the other is not, such as a
// rank that reads data and sends it to its group.
namespace shardsim {

/// By group, the place at which a rank is the root of a step's calls there, or -1.
using RootPlaces = std::vector<int>;

/// Ranks with equal roots do what most of their records say. Those with roots that were not
/// recorded do as the kind of most records.
struct RootKinds {
  std::map<RootPlaces, std::size_t> models;  ///< The record that stands for each kind.
  RootPlaces most;
};

/// `variants`: records by number, those that are equal together. None unless roots explain how they
/// differ: most records of each kind are equal, and each kind that differs from the largest variant
/// has two such records, or one of its only rank. One record is no evidence: rank 0 is a root, too,
/// and may write a log that other roots do not write.
[[nodiscard]] std::optional<RootKinds> kinds_of_roots(
    const std::vector<std::vector<std::size_t>>& variants,
    const std::function<RootPlaces(std::size_t)>& roots_of,
    const std::function<std::size_t(const RootPlaces&)>& num_ranks_with);

}  // namespace shardsim
