#include <catch2/catch.hpp>

#include "reports/pages.hpp"

#include "tests/reports/sample_detail.hpp"
#include "tests/reports/sample_results.hpp"

namespace shardsim {
namespace {

bool has(const std::string& page, const std::string& part) {
  return page.find(part) != std::string::npos;
}

TEST_CASE("a page has the run by stage, by axis and by link, and what it rests on") {
  const samples::Sample sample = samples::plan();
  const RunDetail detail = samples::detail();
  const std::string page = to_markdown(sample.result, sample.headline, &detail);
  CHECK(has(page, "| 0 | 1 | 100 ms | 20.0 ms | 3.00 ms | 0 s | 15.0 B |\n"));
  CHECK(has(page, "| 0 | 1.00 B | 2.00 B | 3.00 B | 4.00 B | 5.00 B | 15.0 B |\n"));
  CHECK(has(page, "| dp | 10.0 ms | 500 ms | 1.00 kB |\n"));
  CHECK(has(page, "| inside node | 1.02 kB | 450 | rank 3 | 25.0 % |\n"));
  CHECK(has(page, "- Something was \\*thinned\\*.\n"));
  for (const Assumption& assumption : sample.result.assumptions) CHECK(!assumption.text.empty());
  CHECK(has(page, "\n## Assumptions\n"));
  CHECK(has(page, "\n## Metrics\n"));
  for (const Metric& metric : sample.result.metrics) CHECK(has(page, "| `" + metric.name + "` |"));
}

TEST_CASE("a run that did not end has no tables of it, but what is wrong") {
  const samples::Sample sample = samples::deadlock();
  const std::string page = to_markdown(sample.result, sample.headline, nullptr);
  CHECK_FALSE(has(page, "## Stages"));
  CHECK_FALSE(has(page, "## Step"));
  CHECK(has(page, sample.result.diagnosis->code));
}

TEST_CASE("names that are not ours are neither markup nor a new row") {
  Result result;
  result.warnings = {"a | b\n# <script>alert(1)</script> [x](http://y) `z`"};
  TextHeadline headline;
  headline.name = "<b>|name|</b>";
  const std::string page = to_markdown(result, headline, nullptr);
  CHECK(has(page, "# \\<b\\>\\|name\\|\\</b\\>\n"));
  CHECK(
      has(page, "- a \\| b\\\\n\\# \\<script\\>alert(1)\\</script\\> \\[x\\](http://y) \\`z\\`\n"));
}

}  // namespace
}  // namespace shardsim
