#include "reports/svg/time_columns.hpp"

#include <algorithm>
#include <numeric>

namespace shardsim::svg {

std::vector<Piece> to_columns(const std::vector<GanttBar>& bars, std::size_t names, double begin_s,
                              double end_s, std::size_t columns) {
  std::vector<double> filled(columns * names, 0.0);  // Of each column by each name, in columns.
  const double per_second = static_cast<double>(columns) / (end_s - begin_s);
  const auto last = static_cast<double>(columns);
  for (const GanttBar& bar : bars) {
    const double from = std::clamp((bar.begin_s - begin_s) * per_second, 0.0, last);
    const double to = std::clamp((bar.end_s - begin_s) * per_second, 0.0, last);
    for (auto column = static_cast<std::size_t>(from);
         column < columns && static_cast<double>(column) < to; ++column) {
      const auto left = static_cast<double>(column);
      filled[column * names + bar.name] += std::min(to, left + 1) - std::max(from, left);
    }
  }
  std::vector<Piece> pieces;
  for (std::size_t column = 0; column < columns; ++column) {
    const auto begin = filled.begin() + static_cast<std::ptrdiff_t>(column * names);
    const auto end = begin + static_cast<std::ptrdiff_t>(names);
    if (std::accumulate(begin, end, 0.0) < 0.5) continue;
    const auto name = static_cast<std::size_t>(std::max_element(begin, end) - begin);
    if (!pieces.empty() && pieces.back().name == name && pieces.back().end == column) {
      ++pieces.back().end;
    } else {
      pieces.push_back({name, column, column + 1});
    }
  }
  return pieces;
}

}  // namespace shardsim::svg
