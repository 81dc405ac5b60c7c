#include "reports/svg/time_columns.hpp"

#include <algorithm>

namespace shardsim::svg {

std::vector<Piece> to_columns(const std::vector<GanttBar>& bars, std::size_t names, double begin_s,
                              double end_s, std::size_t columns) {
  std::vector<double> filled(columns * names, 0.0);  // Share of each column by name.
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
  std::vector<double> owed(names + 1, 0.0);  // The last is idle time.
  for (std::size_t column = 0; column < columns; ++column) {
    double idle = 1;
    for (std::size_t name = 0; name < names; ++name) {
      owed[name] += filled[column * names + name];
      idle -= filled[column * names + name];
    }
    owed[names] += idle;
    const auto most = std::max_element(owed.begin(), owed.end());
    *most -= 1;
    const auto name = static_cast<std::size_t>(most - owed.begin());
    if (name == names) continue;
    if (!pieces.empty() && pieces.back().name == name && pieces.back().end == column) {
      ++pieces.back().end;
    } else {
      pieces.push_back({name, column, column + 1});
    }
  }
  return pieces;
}

}  // namespace shardsim::svg
