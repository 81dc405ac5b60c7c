#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "reports/html/markup.hpp"
#include "reports/html/parts.hpp"
#include "reports/units.hpp"

namespace shardsim::html {
namespace {

constexpr std::size_t kBusiest = 8;

std::string cell_name(const TrafficMatrix& matrix, std::size_t cell, std::int64_t ranks) {
  const std::int64_t first = static_cast<std::int64_t>(cell) * matrix.ranks_per_cell;
  if (matrix.ranks_per_cell == 1) return format_count(first);
  std::int64_t last = first + matrix.ranks_per_cell - 1;
  if (ranks > 0) last = std::min(last, ranks - 1);
  return format_count(first) + "-" + format_count(last);
}

// The busiest first, the first of equals; of those that sent anything.
std::vector<std::size_t> busiest_cells(const TrafficMatrix& matrix) {
  std::vector<std::size_t> order(matrix.bytes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::erase_if(order, [&matrix](std::size_t cell) { return matrix.bytes[cell] == 0; });
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return matrix.bytes[i]; });
  order.resize(std::min(kBusiest, order.size()));
  return order;
}

std::string pairs(const Input& input) {
  const TrafficMatrix& matrix = input.detail.traffic;
  const std::vector<std::size_t> busiest = busiest_cells(matrix);
  if (busiest.empty()) return {};
  const auto steps = static_cast<double>(matrix.steps);
  const double total = static_cast<double>(std::accumulate(matrix.bytes.begin(), matrix.bytes.end(),
                                                           std::int64_t{0})) /
                       steps;
  Table table("The busiest pairs.",
              text_and_numbers({"from rank", "to rank", "payload", "share of all"}));
  for (const std::size_t cell : busiest) {
    const double bytes = static_cast<double>(matrix.bytes[cell]) / steps;
    table.add_row({cell_name(matrix, cell / matrix.cells, input.headline.ranks),
                   cell_name(matrix, cell % matrix.cells, input.headline.ranks),
                   format_traffic(bytes), format_share(bytes / total)});
  }
  const std::string all = format_traffic(total);
  Figure chart;
  chart.chart = "traffic";
  chart.caption = fmt::format(
      "Payload of one step from rank to rank, {} in all. Darker (in dark colours: brighter) is "
      "more, on a logarithmic scale; blank pairs exchange nothing.",
      all);
  if (matrix.ranks_per_cell > 1) {
    chart.caption +=
        fmt::format(" A cell is {0} times {0} neighbouring ranks.", matrix.ranks_per_cell);
  }
  if (matrix.steps > 1) {
    chart.caption += fmt::format(" Steps differ: this is the mean of {}.", matrix.steps);
  }
  chart.label = fmt::format(
      "Heat map of {0} by {0} cells, {1} in all; the busiest pairs stand beside it as a table",
      matrix.cells, all);
  return folded("From rank to rank",
                "<div class=\"beside\">\n" + figure(chart) + table.markup() +
                    "</div>\n<p class=\"scriptless muted\">The map itself needs a browser that "
                    "runs the script of this page.</p>\n");
}

std::string links(const Input& input) {
  if (input.detail.links.empty()) return {};
  Table table("Links by tier.", text_and_numbers({"tier", "sent, all ranks", "bandwidth of a GPU",
                                                  "busiest", "share of the step"}));
  std::string label = "Bars for each tier of links:";
  for (const LinkUse& link : input.detail.links) {
    const std::string share = fmt::format("{:.1f} %", 100 * link.busiest_share);
    table.add_row({markup_text(link.tier), format_traffic(link.bytes),
                   format_number(link.bandwidth_gb_per_s) + " GB/s", grouped_digits(link.busiest),
                   share});
    label += fmt::format(" {} {};", link.tier, share);
  }
  return figure({.chart = "links",
                 .caption = "The share of the step that the busiest rank, or between nodes the "
                            "busiest node with all its network cards, would need for what it "
                            "sends, at the full bandwidth of its links: near 100 % the link itself "
                            "is the limit.",
                 .label = label}) +
         table.markup();
}

// A cell whose colour is as strong as its share of the largest.
std::string heat_cell(std::int64_t bytes, std::int64_t largest) {
  if (bytes == 0) return "<span class=\"heat\">none</span>";
  return fmt::format("<span class=\"heat\" style=\"--heat:{:.0f}%\">{}</span>",
                     100 * static_cast<double>(bytes) / static_cast<double>(largest),
                     format_traffic(bytes));
}

std::string by_axis_and_tier(const Input& input) {
  const std::vector<AxisTraffic>& axes = input.detail.traffic_by_axis;
  if (axes.empty()) return {};
  std::int64_t largest = 1;
  for (const AxisTraffic& axis : axes) {
    largest = std::max({largest, axis.inside_node, axis.between_nodes});
  }
  Table table("Payload of one step of all ranks: axes of parallelism by the links they cross.",
              text_and_numbers({"axis", "inside nodes", "between nodes", "both"}));
  for (const AxisTraffic& axis : axes) {
    table.add_row({markup_text(axis.axis), heat_cell(axis.inside_node, largest),
                   heat_cell(axis.between_nodes, largest),
                   format_traffic(axis.inside_node + axis.between_nodes)});
  }
  return table.markup();
}

}  // namespace

std::string traffic_part(const Input& input) {
  const std::string used = links(input);
  return by_axis_and_tier(input) +
         (used.empty() ? used : "<h3>How busy the links are</h3>\n" + used) + pairs(input);
}

}  // namespace shardsim::html
