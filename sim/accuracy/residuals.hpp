#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/accuracy/row_traits.hpp"
#include "sim/accuracy/validated_table.hpp"

// Where step times of the headline are wrong: the rows with the largest errors, with the parts of
// their predicted steps, and how errors vary with the scenarios' fields. An error that grows with
// one field alone is that of the part which grows with it.
namespace shardsim {

/// A row, by the indices of its table and of itself.
struct StepResidual {
  std::size_t table = 0;
  std::size_t row = 0;

  bool operator==(const StepResidual&) const = default;
};

inline constexpr std::size_t kMostResiduals = 10;
inline constexpr std::size_t kMostResidualsOfTable = 3;

/// The rows with the largest absolute errors, the largest first; of equal ones the first.
[[nodiscard]] std::vector<StepResidual> largest_residuals(std::span<const ValidatedTable> tables);

/// The rows with one value of a trait, or with one range of values.
struct TraitGroup {
  std::string value;  ///< "8", or "8 to 15".
  std::size_t rows = 0;
  double mean_absolute = 0.0;
  double bias = 0.0;  ///< Mean of their errors with signs.
};

/// The groups of kTraits[trait] in rows of all tables, numbers ascending, words as they appear.
/// Above kMostGroups numbers, each range spans a power of two, 4, 8 and so on.
inline constexpr std::size_t kMostGroups = 8;
[[nodiscard]] std::vector<TraitGroup> trait_groups(std::span<const ValidatedTable> tables,
                                                   std::size_t trait);

/// How a table's errors vary with one trait.
struct ErrorGrowth {
  std::size_t trait = 0;
  std::vector<TraitGroup> groups;  ///< Two or more.
  double spread = 0.0;             ///< The largest bias of a group less the smallest.
  /// The share of the errors' variance that lies between groups, adjusted for the number of groups:
  /// about 0 if the trait says nothing, and 1 if it says all. None if no group has two rows, or all
  /// errors are equal.
  std::optional<double> explained;
};

inline constexpr std::size_t kLeastLocatedRows = 5;
inline constexpr double kLeastLocatedError = 0.10;

/// The traits that vary in the table, those that explain most first. Empty for fewer than
/// kLeastLocatedRows rows, and for a mean absolute error of at most kLeastLocatedError.
[[nodiscard]] std::vector<ErrorGrowth> located_residuals(const ValidatedTable& table);

/// Behind the figures of all tables. Empty without any row.
[[nodiscard]] std::string residuals_text(std::span<const ValidatedTable> tables);
[[nodiscard]] std::string residuals_html(std::span<const ValidatedTable> tables);

}  // namespace shardsim
