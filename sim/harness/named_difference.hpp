#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/harness/shown_state.hpp"

// Ways in which a tensor differs from its reference that have a name: a factor, a sign, the values
// of another step, elements in other places, parts of a sum. A name is given only where the
// numbers prove it, so that no hint points elsewhere.
namespace shardsim {

struct NamedDifference {
  std::string what;       ///< Behind the tensor's name: "is 2.000 times that of one device".
  std::string hint = {};  ///< Where to look; empty if that is not known.
  bool is_stale = false;  ///< The values are those of the step before.
};

/// A tensor that differs, and all that helps to name the difference.
struct DifferenceContext {
  const ShownTensor& tensor;
  const Comparison& comparison;
  /// Its reference of the step before; null if there is none.
  const ShownTensor* before = nullptr;
  /// Sizes of groups, by name.
  const std::vector<std::pair<std::string, int>>& groups;
  /// For a norm: sums of squares of the gradients of its step, by name.
  std::vector<std::pair<std::string, double>> squares = {};
};

/// Ranks that show the same elements differently: they hold parts of the reference.
[[nodiscard]] std::optional<NamedDifference> name_parts(const DifferenceContext& context);
/// All else that can be told from the values.
[[nodiscard]] std::optional<NamedDifference> name_values(const DifferenceContext& context);

/// A factor in words: "3.000".
[[nodiscard]] std::string words_of_factor(double factor);
/// "the size of world, or of dp": the groups whose size is the factor or its inverse. May be empty.
[[nodiscard]] std::string owner_of_factor(double factor,
                                          const std::vector<std::pair<std::string, int>>& groups);
/// The usual mistake that makes such a factor; empty if there is none.
[[nodiscard]] std::string hint_of_factor(double factor, bool is_size_of_group);

/// Whether `matches` elements that agree with a rule, each within the comparison's bound, are too
/// many for chance.
[[nodiscard]] bool is_evidence(const Comparison& comparison, std::ptrdiff_t matches);

}  // namespace shardsim
