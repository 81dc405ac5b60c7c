#include "reports/comparison_page.hpp"

#include <string>

#include <catch2/catch.hpp>

namespace shardsim::test {

namespace {

constexpr double kGibOfPage = 1024.0 * 1024 * 1024;

ComparedSide side_named(const std::string& letter, double compute_s) {
  ComparedSide side;
  side.letter = letter;
  side.file = letter + ".json --set a=<b>";
  side.what = "a <plan>";
  side.verdict = "fits";
  side.numbers = {{"Step time", "about 2.00 s", "by the model 1.90 s", "5.0 % less than A"}};
  side.time = {{"compute", compute_s}, {"exposed dp", 0.5}, {"bubble", 0.5}};
  side.step_s = compute_s + 1.0;
  side.memory = {{"params", 20 * kGibOfPage}, {"activations", 20 * kGibOfPage}};
  side.device_bytes = 80 * kGibOfPage;
  side.bands = {{.metric = "step_time_s", .low = 1.5, .centre = 2.0, .high = 3.0}};
  return side;
}

ComparisonPage page_of_three() {
  ComparisonPage page;
  page.title = "3 runs compared";
  page.sentences = {"B is slower.", "C is faster."};
  page.sides = {side_named("A", 1.0), side_named("B", 3.0), side_named("C", 0.5)};
  page.sides[1].is_bad = true;
  page.sides[1].verdict = "does not fit";
  page.fields = {{"parallelism.tp", {"8", "4", ""}}};
  page.traffic = {{"dp", {"1.00 GB", "2.00 GB", ""}}};
  return page;
}

bool has_text(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("runs stand beside each other with their numbers, bars and differences") {
  const std::string html = to_html(page_of_three());
  CHECK(has_text(html, "<li>B is slower.</li>"));
  CHECK(has_text(html, "<div class=\"sides\" style=\"--columns:3\">"));
  CHECK(has_text(html, "<dd class=\"change\">5.0 % less than A</dd>"));
  CHECK(has_text(html, "<p class=\"verdict bad\">✗ does not fit</p>"));
  CHECK(has_text(html, "<code>parallelism.tp</code>"));
  CHECK(has_text(html, "<span class=\"muted\">none</span>"));
  CHECK(to_html(page_of_three()) == html);
}

TEST_CASE("the parts of a compared step lie end to end, the longest step is the width") {
  const std::string html = to_html(page_of_three());
  // The step of A is 2 s of the 4 s of B: its computing has a quarter of the width.
  CHECK(has_text(html,
                 "left:0.000%;width:25.000%;background:var(--time-0)\" title=\"compute: 1.00 s\""));
  CHECK(has_text(html, "left:25.000%;width:12.500%;background:var(--time-1)"));
  CHECK(has_text(html,
                 "left:0.000%;width:75.000%;background:var(--time-0)\" title=\"compute: 3.00 s\""));
}

TEST_CASE("memory is drawn against what the GPU of each side has") {
  ComparisonPage page = page_of_three();
  page.sides[0].device_bytes = 160 * kGibOfPage;
  const std::string html = to_html(page);
  CHECK(has_text(html, "40.0 GiB of 160 GiB"));
  CHECK(has_text(html, "40.0 GiB of 80.0 GiB"));
  CHECK(has_text(html, "class=\"outline\" style=\"left:0.000%;width:50.000%\""));
  CHECK(has_text(html, "class=\"outline\" style=\"left:0.000%;width:100.000%\""));
}

TEST_CASE("a measured side has its step as one bar, and no range") {
  ComparisonPage page = page_of_three();
  page.sides[2] = {};
  page.sides[2].letter = "C";
  page.sides[2].step_s = 2.0;
  const std::string html = to_html(page);
  CHECK(has_text(html, "title=\"not divided\""));
  CHECK(has_text(html, "1.50 to 3.00 s"));
}

TEST_CASE("no text of compared runs is markup, and the page asks for nothing") {
  const std::string html = to_html(page_of_three());
  CHECK_FALSE(has_text(html, "<plan>"));
  CHECK_FALSE(has_text(html, "a=<b>"));
  CHECK(has_text(html, "a &lt;plan&gt;"));
  CHECK(has_text(html, "default-src 'none'"));
}

}  // namespace shardsim::test
