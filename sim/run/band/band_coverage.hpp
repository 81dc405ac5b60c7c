#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sim/run/band/error_groups.hpp"

// How many measurements bands hold that were made without the measurements' own table. All that is
// made of the rows is made anew without it: groups, centres and widths.
namespace shardsim {

/// The figures of a group of runs, or of all. Bands are those that its rows' own plans have.
struct GroupCoverage {
  std::string group;       ///< group_name().
  std::string band_group;  ///< The group that the bands are made from; empty: they are of several.
  std::size_t rows = 0;
  std::size_t tables = 0;
  bool has_band = false;  ///< Whether it has enough rows for a band, or is the group of all.
  std::size_t inside_without = 0;   ///< Rows inside bands that were made without their table.
  double mean_share_without = 0.0;  ///< The mean of the tables' shares of such rows.
  /// The same of bands of this group, whether or not rows are of a smaller one with a band.
  double share_of_own_band = 0.0;
  double width = 1.0;       ///< High / low: the median of the rows' bands.
  double bias = 0.0;        ///< Mean of predicted / measured - 1, each table with the same weight.
  std::size_t outside = 0;  ///< Rows whose own band does not hold the model's number.
};

struct BandCoverage {
  struct Table {
    std::string name;
    std::size_t rows = 0;
    std::size_t inside = 0;
    std::size_t inside_without = 0;  ///< With bands made from all other tables only.
    /// Sums over rows of |centre x predicted / measured - 1|, with such bands, and of the same
    /// without a centre.
    double centre_error_without = 0.0;
    double model_error = 0.0;
  };
  std::vector<Table> tables;
  std::vector<GroupCoverage> groups;  ///< Level by level; the last is of all rows.

  [[nodiscard]] std::size_t rows() const { return sum_of(&Table::rows); }
  [[nodiscard]] std::size_t inside() const { return sum_of(&Table::inside); }
  [[nodiscard]] std::size_t inside_without() const { return sum_of(&Table::inside_without); }
  /// The mean over tables of the share of their rows inside bands made without them.
  [[nodiscard]] double mean_share_without() const;
  /// The share of all rows but those of the largest table. REQUIRES: two tables.
  [[nodiscard]] double share_but_largest() const;
  [[nodiscard]] const Table& largest() const;
  /// The mean over tables of their rows' mean error of such bands' centres, and of the model.
  [[nodiscard]] double mean_centre_error_without() const {
    return mean_of(&Table::centre_error_without);
  }
  [[nodiscard]] double mean_model_error() const { return mean_of(&Table::model_error); }

 private:
  [[nodiscard]] std::size_t sum_of(std::size_t Table::*count) const;
  [[nodiscard]] double mean_of(double Table::*sum) const;
};

/// The coverage of the rows of one quantity, with a framework or without one. It has no tables if
/// there are fewer than two.
[[nodiscard]] BandCoverage band_coverage(const std::vector<MeasuredError>& all,
                                         const std::string& quantity, const std::string& software);

}  // namespace shardsim
