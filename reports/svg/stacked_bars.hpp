#pragma once

#include <string>
#include <vector>

#include "reports/svg/drawing.hpp"

// Horizontal bars whose parts lie end to end, one bar a line.
namespace shardsim::svg {

struct StackedBar {
  std::string label;
  std::vector<double> parts;  ///< In the order of the inks.
  std::string total;          ///< In words, behind the bar.
};

struct StackedBars {
  std::vector<Ink> inks;
  std::vector<StackedBar> bars;
  double full = 0;  ///< The value as long as a bar can be.
};

/// The x of `value`, for marks across the bars.
[[nodiscard]] double stacked_bar_x(const StackedBars& chart, double value);

/// Draws from `y` on; returns the y below the figure. Parts that are wide enough show their share.
double draw_stacked_bars(Drawing& drawing, const StackedBars& chart, double y);

}  // namespace shardsim::svg
