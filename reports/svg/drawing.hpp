#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/svg/palette.hpp"

// A figure in the making, as SVG text: lengths in pixels from the upper left corner, written with
// at most two decimals. Every element carries its colour, so that it looks alike in a page, in a
// mail and in a paper. Text is escaped here.
namespace shardsim::svg {

inline constexpr double kFigureWidth = 960;

/// A length as text: "12.5", "3".
[[nodiscard]] std::string length(double value);

enum class Anchor { start, middle, end };

class Drawing {
 public:
  /// `title`: the text for screen readers and for a pointer over the figure.
  explicit Drawing(std::string_view title);

  void rect(double x, double y, double width, double height, std::string_view fill);
  void text(double x, double y, std::string_view text, Anchor anchor = Anchor::start,
            std::string_view fill = kInk, int size = 12);
  void line(double x1, double y1, double x2, double y2, std::string_view stroke,
            bool is_dashed = false);
  /// `path` in the words of SVG ("M0 0h4v4z"), filled.
  void path(std::string_view path, std::string_view fill);
  /// Swatches with their names, from left to right and on as many lines as needed, the first at
  /// `y`. Returns the y below them.
  double legend(const std::vector<Ink>& inks, double y);

  /// The whole figure; call once.
  [[nodiscard]] std::string finish(double height) const;

 private:
  std::string title_;
  std::string body_;
};

}  // namespace shardsim::svg
