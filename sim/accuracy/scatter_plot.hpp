#pragma once

#include <string>
#include <vector>

#include "sim/accuracy/error_statistics.hpp"

namespace shardsim {

struct ScatterPoint {
  PredictedAndMeasured pair;
  std::string label;     ///< Shown when it is pointed at.
  bool headline = true;  ///< Else drawn hollow.
};

/// An SVG of points, measured to the right and predicted upwards, both logarithmic over the same
/// range, with the diagonal and lines at +-10 %. `unit` labels the axes. The same points give the
/// same bytes. REQUIRES: !points.empty().
[[nodiscard]] std::string scatter_plot(const std::vector<ScatterPoint>& points,
                                       const std::string& unit);

/// `text` escaped for HTML, between tags or quotes.
[[nodiscard]] std::string html_text(const std::string& text);

}  // namespace shardsim
