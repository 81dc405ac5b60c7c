#include <algorithm>

#include <fmt/format.h>

#include "reports/html/markup.hpp"
#include "reports/html/parts.hpp"
#include "reports/units.hpp"

namespace shardsim::html {

namespace {

constexpr double kTera = 1e12;

std::string rate_of(double flops_per_s) { return format_number(flops_per_s / kTera) + " TFLOP/s"; }

bool is_drawable(const RooflinePoint& point) {
  return point.flops > 0 && point.bytes > 0 && point.time_s > 0;
}

}  // namespace

std::string roofline_part(const Input& input) {
  const Roofline& roofline = input.detail.roofline;
  if (roofline.points.empty()) return {};
  std::vector<RooflinePoint> points = roofline.points;
  std::stable_sort(
      points.begin(), points.end(),
      [](const RooflinePoint& a, const RooflinePoint& b) { return a.time_s > b.time_s; });
  double sum = roofline.host_copies_s + roofline.beside_comm_s;
  for (const RooflinePoint& point : points) sum += point.time_s;
  Table table(
      "Operations of one step on the rank that ends last, by name; the times sum to computing.",
      {{"operation", false},
       {"calls", true},
       {"time", true},
       {"share", true},
       {"rate", true},
       {"operations per byte", true}});
  for (const RooflinePoint& point : points) {
    table.add_row({markup_text(point.name), format_count(point.calls), format_seconds(point.time_s),
                   sum > 0 ? format_share(point.time_s / sum) : "",
                   point.time_s > 0 ? rate_of(point.flops / point.time_s) : "",
                   point.bytes > 0 ? format_number(point.flops / point.bytes) : ""});
  }
  const auto add_rest = [&table, sum](const char* name, double seconds) {
    if (seconds > 0) {
      table.add_row({name, "", format_seconds(seconds), format_share(seconds / sum), "", ""});
    }
  };
  add_rest("copies over the host link", roofline.host_copies_s);
  add_rest("computing longer beside communication", roofline.beside_comm_s);
  const bool has_roof = roofline.peak_flops_per_s > 0 && roofline.memory_bytes_per_s > 0;
  std::string markup;
  if (has_roof && std::any_of(points.begin(), points.end(), is_drawable)) {
    Figure chart;
    chart.chart = "roofline";
    chart.caption =
        "Each point is all operations of one name; its area is their time. Under the slope the "
        "memory is the limit, under the flat part the arithmetic. The higher a point under the "
        "line, the better the device is used. Both axes are logarithmic.";
    chart.label = fmt::format(
        "Roofline with {} operations under a peak of {} and {} GB/s of memory; as a table below",
        std::count_if(points.begin(), points.end(), is_drawable),
        rate_of(roofline.peak_flops_per_s), format_number(roofline.memory_bytes_per_s / 1e9));
    markup = figure(chart);
  }
  return markup + folded("Operations as a table", table.markup());
}

}  // namespace shardsim::html
