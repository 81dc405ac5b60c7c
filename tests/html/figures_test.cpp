#include "reports/svg/figures.hpp"

#include <array>
#include <string>

#include <catch2/catch.hpp>

#include "reports/html/markup.hpp"
#include "reports/svg/drawing.hpp"

#include "tests/approved_file.hpp"
#include "tests/reports/sample_details.hpp"

namespace shardsim {
namespace {

constexpr double kDevice = 80e9;

void require_approved(const char* name, const std::string& text) {
  test::require_approved_file(std::string("tests/html/golden/") + name, text);
}

TEST_CASE("The plain figures of a small run are approved") {
  const samples::Page page = samples::pipeline_page({.stages = 2,
                                                     .microbatches = 4,
                                                     .ranks = 16,
                                                     .cells = 16,
                                                     .memory_points = 24,
                                                     .comm_bars = 6});
  require_approved("breakdown.svg", to_svg_breakdown(page.sample.result, page.detail));
  require_approved("schedule.svg", to_svg_schedule(page.detail));
  require_approved("memory.svg", to_svg_memory(page.detail, kDevice));
  require_approved("memory_over_time.svg", to_svg_memory_over_time(page.detail, kDevice));
}

TEST_CASE("Figures without facts are empty") {
  CHECK(to_svg_breakdown({}, {}).empty());
  CHECK(to_svg_schedule({}).empty());
  CHECK(to_svg_memory({}, kDevice).empty());
  CHECK(to_svg_memory_over_time({}, kDevice).empty());
}

TEST_CASE("Names in figures are no markup") {
  const samples::Page page = samples::hostile_page();
  CHECK(to_svg_schedule(page.detail).find("<img") == std::string::npos);
  CHECK(to_svg_schedule(page.detail).find("&lt;img") != std::string::npos);
}

TEST_CASE("A schedule of 20,000 bars is a figure that can be mailed") {
  const std::string svg = to_svg_schedule(samples::large_page().detail);
  CHECK(svg.size() > 10'000);
  CHECK(svg.size() < 500'000);
}

using Columns = std::array<std::size_t, 3>;  // Name, begin, end.

GanttBar bar_of(std::uint32_t name, double begin_s, double end_s) {
  return {.name = name, .begin_s = begin_s, .end_s = end_s};
}

Columns columns_of(const svg::Piece& piece) { return {piece.name, piece.begin, piece.end}; }

TEST_CASE("A column has the colour of what fills most of it") {
  // Four columns of one second: name 0 fills the first, name 1 most of the second, nothing most of
  // the third, and name 1 the last.
  const std::vector<GanttBar> bars = {bar_of(0, 0.0, 1.25), bar_of(1, 1.25, 2.25),
                                      bar_of(1, 3.0, 4.0)};
  const std::vector<svg::Piece> pieces = svg::to_columns(bars, 2, 0.0, 4.0, 4);
  REQUIRE(pieces.size() == 3);
  CHECK(columns_of(pieces[0]) == Columns{0, 0, 1});
  CHECK(columns_of(pieces[1]) == Columns{1, 1, 2});
  CHECK(columns_of(pieces[2]) == Columns{1, 3, 4});
}

TEST_CASE("Short bars between longer gaps get as many columns as they fill") {
  std::vector<GanttBar> bars;  // A quarter of each second, eight seconds, eight columns.
  for (int i = 0; i < 8; ++i) bars.push_back(bar_of(0, i, i + 0.25));
  const std::vector<svg::Piece> pieces = svg::to_columns(bars, 1, 0.0, 8.0, 8);
  REQUIRE(pieces.size() == 2);
  CHECK(columns_of(pieces[0]) == Columns{0, 1, 2});
  CHECK(columns_of(pieces[1]) == Columns{0, 5, 6});
}

TEST_CASE("Neighbouring columns of one name are one piece") {
  const std::vector<svg::Piece> pieces = svg::to_columns({bar_of(0, 0.0, 4.0)}, 1, 0.0, 4.0, 8);
  REQUIRE(pieces.size() == 1);
  CHECK(pieces[0].begin == 0);
  CHECK(pieces[0].end == 8);
}

TEST_CASE("Figures and charts have the same colours") {
  const std::string style = html::report_style();
  const auto require_inks = [&style](const auto& inks, const std::string& name, std::size_t first) {
    for (std::size_t i = 0; i < inks.size(); ++i) {
      const std::string number = std::to_string(first + i);
      CAPTURE(name, number);
      CHECK(style.find("--" + name + "-" + number + ": " + inks.at(i).fill) != std::string::npos);
      CHECK(style.find("--on-" + name + "-" + number + ": " + inks.at(i).text) !=
            std::string::npos);
    }
  };
  require_inks(svg::kTimeInks, "time", 0);
  require_inks(svg::kMemoryInks, "memory", 0);
  require_inks(svg::kWorkInks, "bar", 0);
  require_inks(svg::kOtherInks, "bar", svg::kWorkInks.size());
}

}  // namespace
}  // namespace shardsim
