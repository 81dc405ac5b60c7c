#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "sim/kernel/memory_ledger.hpp"

// A figure in the making, as SVG text: lengths in pixels from the upper left corner, written with
// at most two decimals. Every element carries its colour, so that it looks alike in a page, in a
// mail and in a paper. Text is escaped here.
namespace shardsim::svg {

// Colours of the plain figures: those of reports/web/src/report.css on light paper.

/// A part of a figure: its name, its colour, and the colour of text on it.
struct Ink {
  const char* name;
  const char* fill;
  const char* text;
};

inline constexpr const char* kInk = "#1b222c";
inline constexpr const char* kMuted = "#5a6675";
inline constexpr const char* kLine = "#e1e5ea";
inline constexpr const char* kAlarm = "#b3261e";

inline constexpr std::array<Ink, 4> kTimeInks = {
    {{"computing", "#2b6cb0", "#ffffff"},
     {"waiting for communication", "#e08a2c", "#241500"},
     {"pipeline bubble and idle", "#c3cad3", "#1b222c"},
     {"waiting for the host", "#7b5ea7", "#ffffff"}}};

/// In the order of MemoryCategory.
inline constexpr std::array<Ink, kNumMemoryCategories> kMemoryInks = {
    {{"parameters", "#2b6cb0", "#ffffff"},
     {"gradients", "#8fbce8", "#0d2136"},
     {"optimizer", "#e3a63b", "#241500"},
     {"activations", "#25806a", "#ffffff"},
     {"communication", "#ad4f85", "#ffffff"}}};

/// The colours of a schedule: computations by their names,
inline constexpr std::array<Ink, 7> kWorkInks = {{{"forward", "#2b6cb0", "#ffffff"},
                                                  {"backward", "#25806a", "#ffffff"},
                                                  {"weight grad", "#98c97a", "#14240a"},
                                                  {"optimizer", "#e3a63b", "#241500"},
                                                  {"input grad", "#6cbfa8", "#06231a"},
                                                  {"gradients", "#8fbce8", "#0d2136"},
                                                  {"several", "#aab3bf", "#1b222c"}}};
/// and all others in turn.
inline constexpr std::array<Ink, 5> kOtherInks = {{{"", "#d9742a", "#1d0d00"},
                                                   {"", "#ad4f85", "#ffffff"},
                                                   {"", "#7b5ea7", "#ffffff"},
                                                   {"", "#94702c", "#ffffff"},
                                                   {"", "#64748b", "#ffffff"}}};

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
  /// A disc that tells `title` when it is pointed at.
  void disc(double x, double y, double radius, std::string_view fill, std::string_view title);
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
