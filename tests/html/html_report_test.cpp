#include <cstdint>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/kernel/error.hpp"

#include "reports/json_writer.hpp"
#include "reports/pages.hpp"

#include "tests/reports/sample_details.hpp"

namespace shardsim {
namespace {

constexpr std::size_t kMegabyte = 1'000'000;

std::string html_of(const samples::Page& page) {
  return to_html(page.sample.result, page.sample.headline, page.detail);
}

std::string html_of(const samples::Sample& sample) {
  return to_html(sample.result, sample.headline, {});
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The content of the element that starts with `open`, up to the next tag's end.
std::string content_of(const std::string& html, const std::string& open) {
  const std::size_t begin = html.find(open);
  REQUIRE(begin != std::string::npos);
  const std::size_t start = begin + open.size();
  return html.substr(start, html.find("</script>", start) - start);
}

std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    text.replace(at, from.size(), to);
    at += to.size();
  }
  return text;
}

TEST_CASE("Equal runs give equal pages") {
  CHECK(html_of(samples::small_page()) == html_of(samples::small_page()));
}

TEST_CASE("The result in the page is that of result.json, digit by digit") {
  for (const samples::Page& page : {samples::small_page(), samples::hostile_page()}) {
    const std::string data =
        content_of(html_of(page), "<script type=\"application/json\" id=\"result\">\n");
    CHECK(replace_all(data, "\\u003c", "<") == to_json(page.sample.result));
    CHECK(nlohmann::json::parse(data) == nlohmann::json::parse(to_json(page.sample.result)));
  }
}

TEST_CASE("Every metric stands in the table with the digits of result.json") {
  const samples::Page page = samples::small_page();
  const std::string html = html_of(page);
  const auto metrics = nlohmann::ordered_json::parse(to_json(page.sample.result))["metrics"];
  for (const auto& [name, value] : metrics.items()) {
    CAPTURE(name);
    CHECK(contains(html, "<code>" + name + "</code>"));
    CHECK(contains(html, "<code>" + replace_all(value.dump(), "\"", "&quot;") + "</code>"));
  }
}

TEST_CASE("A page of 1,024 ranks is below 3 MB, and its detail is packed") {
  const std::string html = html_of(samples::large_page());
  CHECK(html.size() < 3 * kMegabyte);
  CHECK(contains(html, "<script type=\"application/gzip\" id=\"detail\">H4sI"));
  CHECK(contains(html_of(samples::small_page()),
                 "<script type=\"application/json\" id=\"detail\">{"));
}

TEST_CASE("No text of a run is markup") {
  const std::string html = html_of(samples::hostile_page());
  CHECK_FALSE(contains(html, "<img src=x"));
  CHECK_FALSE(contains(html, "\x1b[31m"));
  CHECK(contains(
      html, "<h1>&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;&quot;&#39;&amp;\\x1b[31m</h1>"));
}

TEST_CASE("The page forbids itself to ask for anything, and every script but its own") {
  const std::string html = html_of(samples::small_page());
  CHECK(contains(html, "default-src 'none'; script-src 'sha256-"));
  CHECK_FALSE(contains(html, "script-src 'unsafe-inline'"));
}

TEST_CASE("The summary says what a step takes, costs and needs") {
  const std::string html = html_of(samples::small_page());
  CHECK(contains(
      html,
      "One step takes <strong>about 3.00 s</strong> (80 % of runs: 2.25 to 3.75 s). By the "
      "model 2.50 s, "
      "6,550 tokens per "
      "second on each of 64 GPUs, <strong>39 %</strong> of what they could compute"));
  CHECK(contains(
      html,
      "The GPU that ends last computes 83 %, waits for communication 12 % and idles in the "
      "pipeline 5 % of"));
  CHECK(contains(html, "needs <strong>52.0 GiB</strong> of memory of the 74.5 GiB it has"));
  CHECK(contains(html,
                 "Training on 1 T tokens takes about <strong>33.1 days</strong> and costs "
                 "<strong>$127,000</strong>"));
}

TEST_CASE("The memory that the summary tells is what decides whether a run fits") {
  samples::Page page = samples::small_page();
  std::erase_if(page.sample.result.metrics,
                [](const Metric& row) { return row.name == "memory.device_bytes.max"; });
  CHECK(contains(html_of(page), "needs <strong>45.0 GiB</strong> of memory of the 74.5 GiB"));
  page.sample.result.metrics.push_back({"memory.device_bytes.max", std::int64_t{60} << 30});
  CHECK(contains(html_of(page), "needs <strong>60.0 GiB</strong> of memory of the 74.5 GiB"));
}

TEST_CASE("Days and cost have the band of the step") {
  const std::string html = html_of(samples::small_page());
  CHECK(contains(html,
                 "<td class=\"number\">24.8 days</td><td class=\"number\">38,100</td>"
                 "<td class=\"number\">$95,400</td>"));
  CHECK(contains(html,
                 "<td class=\"number\">41.4 days</td><td class=\"number\">63,600</td>"
                 "<td class=\"number\">$159,000</td>"));
}

TEST_CASE("Where steps differ, traffic is their mean") {
  samples::Page page = samples::small_page();
  page.detail.traffic = {.ranks_per_cell = 1, .steps = 4, .cells = 2, .bytes = {0, 4000, 12000, 0}};
  const std::string html = html_of(page);
  CHECK(contains(html, "4.00 kB in all."));
  CHECK(contains(html, "this is the mean of 4."));
  CHECK(contains(html, "<td class=\"number\">3.00 kB</td><td class=\"number\">75 %</td>"));
}

TEST_CASE("Operations and what is beside them sum to computing") {
  samples::Page page = samples::small_page();
  page.detail.roofline.host_copies_s = 1.5;
  const std::string html = html_of(page);
  CHECK(contains(html, "copies over the host link</th>"));
  CHECK_FALSE(contains(html, "computing longer beside communication</th>"));
}

TEST_CASE("Parts without facts are left out") {
  const std::string html = html_of(samples::bare_page());
  for (const char* id : {"cost", "schedule", "memory", "communication", "traffic", "roofline"}) {
    CAPTURE(id);
    const std::string section = std::string("<details class=\"part\" id=\"") + id + "\">";
    CHECK_FALSE(contains(html, section));
    CHECK(contains(html_of(samples::small_page()), section));
  }
  CHECK(contains(html, "<details class=\"part\" id=\"metrics\">"));
  CHECK_FALSE(contains(html, "<h3>Error band</h3>"));
}

TEST_CASE("What went wrong stands in the summary") {
  const std::string infeasible = html_of(samples::infeasible());
  CHECK(contains(infeasible, "<p class=\"verdict bad\">✗ DOES NOT FIT</p>"));
  CHECK(contains(infeasible, "has only 74.5 GiB"));
  CHECK(contains(infeasible, "None: only one table has measured runs with experts."));
  const std::string failed = html_of(samples::failed_verify());
  CHECK(contains(failed, "<p class=\"verdict bad\">✗ FAILED: 1 check and 1 expectation</p>"));
  CHECK(contains(failed, "<li>check oracle: gradient of blocks.1.mlp.up.weight differs first"));
  CHECK(contains(failed, "<h3>1 warning</h3>"));
  const std::string deadlock = html_of(samples::deadlock());
  CHECK(contains(deadlock,
                 "The run ended with <strong>DEADLOCK</strong>: 2 ranks wait for each other."));
  CHECK(contains(deadlock, "rank 0 waits for rank 1 to receive\n"));
}

TEST_CASE("A resolved scenario that is no object is a bug of ours") {
  samples::Page page = samples::small_page();
  page.sample.result.scenario_json = "no JSON";
  CHECK_THROWS_AS(html_of(page), Error);
}

}  // namespace
}  // namespace shardsim
