#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "reports/units.hpp"
#include "sim/search/search_report.hpp"

// Points on a terminal: two columns and four rows of braille dots per character, or one sign on a
// terminal without braille.
namespace shardsim {

namespace {

constexpr std::size_t kColumns = 64;
constexpr std::size_t kRows = 10;
constexpr std::size_t kDotsAcross = 2;
constexpr std::size_t kDotsDown = 4;
// Bits of a braille character's dots, by column, then by row; Unicode 15, block 2800.
constexpr std::array<std::array<unsigned, kDotsDown>, kDotsAcross> kDots = {
    {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}};
constexpr unsigned kBraille = 0x2800;

std::string utf8(unsigned code) {
  constexpr unsigned kSixBits = 0x3F;
  return {static_cast<char>(0xE0U | code >> 12U),
          static_cast<char>(0x80U | (code >> 6U & kSixBits)),
          static_cast<char>(0x80U | (code & kSixBits))};
}

struct Range {
  double low = std::numeric_limits<double>::max();
  double high = std::numeric_limits<double>::lowest();
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // 0 to `cells` - 1.
  [[nodiscard]] std::size_t place(double value, std::size_t cells) const {
    if (high <= low) return 0;
    return static_cast<std::size_t>((value - low) / (high - low) * static_cast<double>(cells - 1));
  }
};

class Canvas {
 public:
  explicit Canvas(bool ascii) : ascii_(ascii) {}

  void put(double across, double up, const Range& x, const Range& y, bool on_front) {
    const std::size_t dot_x = x.place(across, kColumns * kDotsAcross);
    const std::size_t dot_y = kRows * kDotsDown - 1 - y.place(up, kRows * kDotsDown);
    Cell& cell = cells_[dot_y / kDotsDown * kColumns + dot_x / kDotsAcross];
    cell.dots |= kDots.at(dot_x % kDotsAcross).at(dot_y % kDotsDown);
    cell.on_front |= on_front;
  }

  [[nodiscard]] std::string row(std::size_t index) const {
    std::string text;
    for (std::size_t column = 0; column < kColumns; ++column) {
      const Cell& cell = cells_[index * kColumns + column];
      if (cell.dots == 0) {
        text += ' ';
      } else if (cell.on_front) {
        text += '*';
      } else {
        text += ascii_ ? "." : utf8(kBraille + cell.dots);
      }
    }
    while (!text.empty() && text.back() == ' ') text.pop_back();
    return text;
  }

 private:
  struct Cell {
    unsigned dots = 0;
    bool on_front = false;
  };
  bool ascii_;
  std::array<Cell, kColumns * kRows> cells_{};
};

}  // namespace

std::string scatter_text(const SearchReport& report, bool ascii) {
  Range x;
  Range y;
  for (const SimulatedPoint& point : report.others) {
    x.include(point.tokens_per_s_per_gpu);
    y.include(static_cast<double>(point.device_bytes));
  }
  if (report.others.empty()) return {};
  Canvas canvas(ascii);
  const auto put = [&](const std::vector<SimulatedPoint>& points, bool on_front) {
    for (const SimulatedPoint& point : points) {
      canvas.put(point.tokens_per_s_per_gpu, static_cast<double>(point.device_bytes), x, y,
                 on_front);
    }
  };
  put(report.others, false);
  put(report.front, true);
  std::string text;
  for (std::size_t row = 0; row < kRows; ++row) {
    const std::string label = row == 0           ? format_memory(y.high)
                              : row + 1 == kRows ? format_memory(y.low)
                                                 : std::string();
    text += fmt::format("  {:>10} {}{}\n", label, ascii ? "|" : "│", canvas.row(row));
  }
  std::string line;
  for (std::size_t i = 0; i < kColumns; ++i) line += ascii ? "-" : "─";
  text += fmt::format("  {:>10} {}{}\n", "", ascii ? "+" : "└", line);
  text += fmt::format("  {:>10}  {:<26}{:>38}\n", "", format_number(x.low) + " tok/s/GPU",
                      format_number(x.high) + " tok/s/GPU");
  return text;
}

}  // namespace shardsim
