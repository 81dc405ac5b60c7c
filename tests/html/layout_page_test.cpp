#include <string>

#include <catch2/catch.hpp>

#include "reports/pages.hpp"

namespace shardsim::test {

namespace {

constexpr std::int64_t kGib = 1024LL * 1024 * 1024;

LayoutPage small_search() {
  LayoutPage page;
  page.title = "a <model> on 8 GPUs";
  page.facts = "bf16";
  page.order = "fastest first";
  page.why = "The second: 2 % slower: 10 ms more compute.";
  page.counts = "3 layouts: 3 simulated in full.";
  page.capacity_bytes = 80 * kGib;
  const LayoutRow fast = {"tp8 <fast>", 1.0, 0.5, 1000, 60 * kGib, 0};
  const LayoutRow small = {"tp4 small", 2.0, 0.25, 500, 20 * kGib, 0};
  const LayoutRow poor = {"tp2 poor", 4.0, 0.125, 250, 70 * kGib, 0};
  page.ranked = {fast, small, poor};
  page.front = {fast, small};
  page.others = {fast, small, poor};
  page.assumptions = {"bf16, as nobody says otherwise"};
  return page;
}

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the page of a search has the ranking, the front, and what it rests on") {
  const std::string html = to_html(small_search());
  CHECK(has(html, "The best layout is tp8 &lt;fast&gt;: a step of 1.00 s"));
  CHECK(has(html, "60.0 GiB of the 80.0 GiB"));
  CHECK(has(html, "The second: 2 % slower"));
  CHECK(has(html, "<th scope=\"row\">tp2 poor</th>"));
  // In the ranking, and on the front.
  CHECK(times(html, "<th scope=\"row\">tp4 small</th>") == 2);
  CHECK(has(html, "<li>bf16, as nobody says otherwise</li>"));
  CHECK_FALSE(has(html, "<model>"));
  CHECK_FALSE(has(html, "<fast>"));
  CHECK(has(html, "default-src 'none'; script-src 'sha256-"));
  CHECK_FALSE(has(html, "1 T tokens"));
  CHECK(to_html(small_search()) == html);
}

TEST_CASE("a price is a column of the page of a search") {
  LayoutPage page = small_search();
  for (LayoutRow& row : page.ranked) row.usd_per_1t_tokens = 123456;
  CHECK(has(to_html(page), "1 T tokens"));
  CHECK(has(to_html(page), "$123,000"));
}

TEST_CASE("every layout is a dot, those on the front large") {
  const std::string svg = to_svg_scatter(small_search());
  CHECK(times(svg, "<circle") == 5);
  CHECK(times(svg, "r=\"5\"") == 2);
  // Faster is to the right: 1,000 of 200 to 1,000, the right edge.
  CHECK(has(svg, "<circle cx=\"710\""));
  CHECK(has(svg, "<title>tp2 poor: step 4.00 s, 250 tokens/s/GPU, 70.0 GiB</title>"));
}

TEST_CASE("layouts on the front have their names beside the figure, a line apart") {
  const std::string svg = to_svg_scatter(small_search());
  CHECK(times(svg, ">tp8 &lt;fast&gt;</text>") == 1);
  CHECK(times(svg, ">tp4 small</text>") == 1);
  CHECK_FALSE(has(svg, ">tp2 poor</text>"));
  LayoutPage crowded = small_search();
  crowded.front.assign(40, crowded.front.front());
  CHECK(times(to_svg_scatter(crowded), ">tp8 &lt;fast&gt;</text>") == 20);
}

TEST_CASE("a layout with a band has its range, and days and cost have the step's") {
  LayoutPage page = small_search();
  LayoutRow& best = page.ranked.front();
  best.bands = {{.metric = "step_time_s", .low = 0.9, .centre = 1.2, .high = 1.5},
                {.metric = "memory.device_bytes.max", .low = 5e10, .centre = 6.5e10, .high = 9e10}};
  best.days = 10;
  best.usd = 1000;
  const std::string html = to_html(page);
  CHECK(has(html,
            "<b>about 1.20 s</b><br><span class=\"muted\">900 ms to 1.50 s<br>model "
            "1.00 s</span>"));
  CHECK(has(html, "<b>about 12.0 days</b><br><span class=\"muted\">9.00 to 15.0 days</span>"));
  CHECK(has(html, "<b>about $1,200</b>"));
  CHECK_FALSE(has(to_html(small_search()), "time to train"));
}

TEST_CASE("launch flags are text, folded by layout") {
  LayoutPage page = small_search();
  page.ranked.front().launches = {{"megatron", "--tensor-model-parallel-size 8 \\\n--x <y>"}};
  const std::string html = to_html(page);
  CHECK(has(html, "<summary>megatron: tp8 &lt;fast&gt;</summary>"));
  CHECK(has(html, "--tensor-model-parallel-size 8 \\\n--x &lt;y&gt;</pre>"));
  CHECK_FALSE(has(to_html(small_search()), "Launch flags"));
}

TEST_CASE("a search that found nothing has a page") {
  LayoutPage page = small_search();
  page.ranked.clear();
  page.front.clear();
  page.others.clear();
  CHECK(has(to_html(page), "No layout fits."));
  CHECK(to_svg_scatter(page).empty());
}

}  // namespace shardsim::test
