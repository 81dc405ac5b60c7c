#include "reports/svg/stacked_bars.hpp"

#include <cstddef>

#include <fmt/format.h>

#include "reports/units.hpp"

namespace shardsim::svg {

namespace {

constexpr double kLeft = 96;  // Labels stand before it, totals behind the right end.
constexpr double kRight = kFigureWidth - 90;
constexpr double kBar = 22;
constexpr double kPitch = 30;
constexpr double kLeastForShare = 34;

}  // namespace

double stacked_bar_x(const StackedBars& chart, double value) {
  return kLeft + (chart.full > 0 ? value / chart.full : 0) * (kRight - kLeft);
}

double draw_stacked_bars(Drawing& drawing, const StackedBars& chart, double y) {
  for (const StackedBar& bar : chart.bars) {
    const std::vector<int> percents = apportion(bar.parts, 100);
    drawing.text(kLeft - 8, y + 15, bar.label, Anchor::end);
    double before = 0;
    for (std::size_t i = 0; i < bar.parts.size(); ++i) {
      if (!(bar.parts[i] > 0)) continue;
      const double x = stacked_bar_x(chart, before);
      before += bar.parts[i];
      const double width = stacked_bar_x(chart, before) - x;
      drawing.rect(x, y, width, kBar, chart.inks[i].fill);
      if (width >= kLeastForShare) {
        drawing.text(x + width / 2, y + 15, fmt::format("{} %", percents[i]), Anchor::middle,
                     chart.inks[i].text, 11);
      }
    }
    drawing.text(stacked_bar_x(chart, before) + 8, y + 15, bar.total, Anchor::start, kMuted);
    y += kPitch;
  }
  return y;
}

}  // namespace shardsim::svg
