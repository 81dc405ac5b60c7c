#include "reports/html/bars.hpp"

#include <string>

#include <catch2/catch.hpp>

namespace shardsim {
namespace {

bool has_part(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

html::BarChart chart_of_two() {
  return {.title = "a <title>",
          .caption = "",
          .rows = {{"first", {{0, 1, "time-0", ""}}, "1 s", false},
                   {"second", {{1, 3, "", "what <it> is"}}, "3 s", true}},
          .least = 0,
          .full = 4,
          .line = 2};
}

TEST_CASE("A bar begins and ends where its numbers say") {
  const std::string markup = html::bar_chart(chart_of_two());
  CHECK(has_part(markup, "style=\"left:0.000%;width:25.000%;background:var(--time-0)\""));
  CHECK(has_part(markup, "class=\"outline\" style=\"left:25.000%;width:75.000%\""));
  CHECK(has_part(markup, "<b style=\"left:50.000%\"></b>"));
  CHECK(has_part(markup, "<li class=\"whole\"><span class=\"name\">second"));
}

TEST_CASE("Bars may begin below zero, and none leaves the chart") {
  html::BarChart chart = chart_of_two();
  chart.least = -4;
  chart.rows[0].parts = {{-2, 2, "time-0", ""}};
  chart.rows[1].parts = {{0, 100, "time-0", ""}};
  const std::string markup = html::bar_chart(chart);
  CHECK(has_part(markup, "left:25.000%;width:25.000%"));
  CHECK(has_part(markup, "left:50.000%;width:50.000%"));
}

TEST_CASE("No name of a bar is markup, and nothing to draw is nothing") {
  const std::string markup = html::bar_chart(chart_of_two());
  CHECK(has_part(markup, "a &lt;title&gt;"));
  CHECK(has_part(markup, "title=\"what &lt;it&gt; is\""));
  CHECK(html::bar_chart({}).empty());
  html::BarChart flat = chart_of_two();
  flat.full = 0;
  CHECK(html::bar_chart(flat).empty());
}

}  // namespace
}  // namespace shardsim
