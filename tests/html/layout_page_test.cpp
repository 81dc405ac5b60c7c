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
  CHECK(times(html, "tp2 poor") == 1);   // In the ranking,
  CHECK(times(html, "tp4 small") == 2);  // and on the front.
  CHECK(has(html, "<li>bf16, as nobody says otherwise</li>"));
  CHECK_FALSE(has(html, "<model>"));
  CHECK_FALSE(has(html, "<fast>"));
  CHECK_FALSE(has(html, "<script"));
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
  CHECK(times(svg, "<path") == 5);
  // Faster is to the right: 1,000 of 200 to 1,000, the right edge.
  CHECK(has(svg, "M931 "));
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
