#pragma once

#include <optional>
#include <string>
#include <vector>

// Horizontal bars of HTML and CSS alone: they need no script, print as they are, and their numbers
// are text that can be read aloud and copied.
namespace shardsim::html {

/// A part of a bar, in the unit of the chart.
struct BarPart {
  double begin = 0;
  double length = 0;
  std::string ink;   ///< A colour of reports/web/src/report.css: "time-0"; "" is an outline.
  std::string name;  ///< Shown when it is pointed at; may be empty.
};

struct BarRow {
  std::string name;
  std::vector<BarPart> parts;
  std::string amount;     ///< "1.53 s, 62.1 %"
  bool is_whole = false;  ///< A sum or a limit: its text is bold.
};

struct BarChart {
  std::string title;
  std::string caption;
  std::vector<BarRow> rows;
  double least = 0;            ///< The left end, at most 0.
  double full = 0;             ///< The right end.
  std::optional<double> line;  ///< A dashed line across all rows.
};

/// Empty without rows or without a length. REQUIRES: finite numbers, none below `least`.
[[nodiscard]] std::string bar_chart(const BarChart& chart);

/// The names of colours, for charts whose bars have several parts.
struct InkName {
  std::string ink;
  std::string name;
};
[[nodiscard]] std::string ink_legend(const std::vector<InkName>& inks);

}  // namespace shardsim::html
