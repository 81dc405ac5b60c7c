#pragma once

#include <string>
#include <vector>

#include "sim/run/band/measured_error.hpp"

namespace shardsim {

/// The number of measurements inside the bands around their predictions.
struct BandCoverage {
  struct Table {
    std::string name;
    std::size_t rows = 0;
    std::size_t inside = 0;
    /// With bands and a widening made from all other tables only.
    std::size_t inside_without = 0;
  };
  std::vector<Table> tables;
  double widening = 1.0;  ///< The widening of bands made from all tables.

  [[nodiscard]] std::size_t rows() const;
  [[nodiscard]] std::size_t inside() const;
  [[nodiscard]] std::size_t inside_without() const;
  /// The mean over tables of the share of their rows inside bands made without them.
  [[nodiscard]] double mean_share_without() const;
};

/// The coverage of the rows of one quantity, with a framework or without one. It has no tables if
/// there are fewer than two.
[[nodiscard]] BandCoverage band_coverage(const std::vector<MeasuredError>& all,
                                         const std::string& quantity, const std::string& software);

}  // namespace shardsim
