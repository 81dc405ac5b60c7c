#include <algorithm>
#include <cstddef>
#include <numeric>
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
  if (matrix.ranks_per_cell == 1) return std::to_string(first);
  std::int64_t last = first + matrix.ranks_per_cell - 1;
  if (ranks > 0) last = std::min(last, ranks - 1);
  return fmt::format("{}-{}", first, last);
}

// The busiest first, the first of equals; of those that sent anything.
std::vector<std::size_t> busiest_cells(const TrafficMatrix& matrix) {
  std::vector<std::size_t> order(matrix.bytes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(kBusiest, order.size()));
  std::partial_sort(order.begin(), end, order.end(), [&matrix](std::size_t a, std::size_t b) {
    return matrix.bytes[a] != matrix.bytes[b] ? matrix.bytes[a] > matrix.bytes[b] : a < b;
  });
  order.erase(end, order.end());
  std::erase_if(order, [&matrix](std::size_t cell) { return matrix.bytes[cell] == 0; });
  return order;
}

}  // namespace

std::string traffic_part(const Input& input) {
  const TrafficMatrix& matrix = input.detail.traffic;
  const std::vector<std::size_t> busiest = busiest_cells(matrix);
  if (busiest.empty()) return {};
  const auto steps = static_cast<double>(matrix.steps);
  const double total = static_cast<double>(std::accumulate(matrix.bytes.begin(), matrix.bytes.end(),
                                                           std::int64_t{0})) /
                       steps;
  Table table("The busiest pairs.",
              {{"from rank", false}, {"to rank", true}, {"payload", true}, {"share of all", true}});
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
  return "<div class=\"beside\">\n" + figure(chart) + table.markup() +
         "</div>\n<p class=\"scriptless muted\">The map itself needs a browser that runs the "
         "script "
         "of this page.</p>\n";
}

std::string links_part(const Input& input) {
  if (input.detail.links.empty()) return {};
  Table table("Links by tier.", {{"tier", false},
                                 {"sent, all ranks", true},
                                 {"bandwidth of a GPU", true},
                                 {"busiest", true},
                                 {"share of the step", true}});
  std::string label = "Bars for each tier of links:";
  for (const LinkUse& link : input.detail.links) {
    const std::string share = fmt::format("{:.1f} %", 100 * link.busiest_share);
    table.add_row({markup_text(link.tier), format_traffic(static_cast<double>(link.bytes)),
                   format_number(link.bandwidth_gb_per_s) + " GB/s", link.busiest, share});
    label += fmt::format(" {} {};", link.tier, share);
  }
  Figure chart;
  chart.chart = "links";
  chart.caption =
      "The share of the step that the busiest rank, or between nodes the busiest node with all its "
      "network cards, would need for what it sends, at the full bandwidth of its links: near 100 % "
      "the link itself is the limit.";
  chart.label = label;
  return figure(chart) + table.markup();
}

}  // namespace shardsim::html
