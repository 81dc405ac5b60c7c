#include "sim/accuracy/scatter_plot.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace shardsim {

namespace {

constexpr double kSize = 360.0;
constexpr double kLeft = 52.0;
constexpr double kTop = 10.0;
constexpr double kBottom = 40.0;
constexpr double kRight = 12.0;
// Wide enough to tell the lines at +-10 % apart.
constexpr double kLeastDecades = 0.6;

// Both axes: from `first` on over `decades` powers of ten.
struct LogRange {
  double first = 0.0;
  double decades = 1.0;

  [[nodiscard]] double place(double value) const { return (std::log10(value) - first) / decades; }
  [[nodiscard]] double x(double value) const { return kLeft + kSize * place(value); }
  [[nodiscard]] double y(double value) const { return kTop + kSize * (1.0 - place(value)); }
};

LogRange range_of(const std::vector<ScatterPoint>& points) {
  double least = points.front().pair.measured;
  double most = least;
  for (const ScatterPoint& point : points) {
    least = std::min({least, point.pair.measured, point.pair.predicted});
    most = std::max({most, point.pair.measured, point.pair.predicted});
  }
  const double low = std::log10(least);
  const double high = std::log10(most);
  const double middle = (low + high) / 2.0;
  const double decades = std::max(1.1 * (high - low), kLeastDecades);
  return {middle - decades / 2.0, decades};
}

// 1, 2 and 5 times the powers of ten; over many decades only the powers.
std::vector<double> ticks_of(const LogRange& range) {
  std::vector<double> ticks;
  const auto first = static_cast<int>(std::floor(range.first));
  const auto last = static_cast<int>(std::ceil(range.first + range.decades));
  for (int power = first; power <= last; ++power) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      if (range.decades > 3.0 && digit != 1.0) continue;
      const double value = digit * std::pow(10.0, power);
      const double place = range.place(value);
      if (place >= 0.0 && place <= 1.0) ticks.push_back(value);
    }
  }
  return ticks;
}

std::string line(double x1, double y1, double x2, double y2, const char* style) {
  return fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>",
                     style, x1, y1, x2, y2);
}

std::string axes(const LogRange& range, const std::string& unit) {
  std::string svg = fmt::format(
      "<rect class=\"frame\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>", kLeft,
      kTop, kSize, kSize);
  for (const double tick : ticks_of(range)) {
    const double x = range.x(tick);
    const double y = range.y(tick);
    svg += line(x, kTop, x, kTop + kSize, "grid");
    svg += line(kLeft, y, kLeft + kSize, y, "grid");
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:g}</text>", x,
                       kTop + kSize + 15.0, tick);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{:g}</text>",
                       kLeft - 6.0, y + 4.0, tick);
  }
  svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">measured, {}</text>",
                     kLeft + kSize / 2.0, kTop + kSize + 33.0, unit);
  const double middle = kTop + kSize / 2.0;
  svg += fmt::format(
      "<text x=\"12\" y=\"{0:.1f}\" text-anchor=\"middle\" transform=\"rotate(-90 12 {0:.1f})\">"
      "predicted, {1}</text>",
      middle, unit);
  return svg;
}

// predicted = factor x measured, as far as it is within the frame.
std::string ratio_line(const LogRange& range, double factor, const char* style) {
  const double shift = std::log10(factor) / range.decades;
  const double from = std::max(0.0, -shift);
  const double to = std::min(1.0, 1.0 - shift);
  return line(kLeft + kSize * from, kTop + kSize * (1.0 - from - shift), kLeft + kSize * to,
              kTop + kSize * (1.0 - to - shift), style);
}

}  // namespace

std::string html_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string scatter_plot(const std::vector<ScatterPoint>& points, const std::string& unit) {
  const LogRange range = range_of(points);
  const double width = kLeft + kSize + kRight;
  const double height = kTop + kSize + kBottom;
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\" "
      "aria-label=\"predicted against measured\">\n",
      width, height);
  svg += axes(range, html_text(unit)) + "\n";
  svg += ratio_line(range, 1.0, "exact");
  svg += ratio_line(range, 1.1, "near");
  svg += ratio_line(range, 0.9, "near") + "\n";
  for (const ScatterPoint& point : points) {
    svg += fmt::format(
        "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{}: predicted {:.4g}, "
        "measured {:.4g} {} ({:+.1f} %)</title></circle>\n",
        point.headline ? "point" : "apart", range.x(point.pair.measured),
        range.y(point.pair.predicted), html_text(point.label), point.pair.predicted,
        point.pair.measured, html_text(unit), 100.0 * point.pair.error());
  }
  return svg + "</svg>\n";
}

}  // namespace shardsim
