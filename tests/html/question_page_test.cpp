#include "reports/question_page.hpp"

#include <string>

#include <catch2/catch.hpp>

namespace shardsim::test {

namespace {

constexpr std::int64_t kGibOfGpu = std::int64_t{1} << 30;

QuestionPage page_of_machines() {
  QuestionPage page;
  page.title = "a <model> on 10 T tokens";
  page.order = "cheapest first";
  page.deadline_days = 90;
  page.budget_usd = 6e6;
  QuestionRow good;
  good.machine = "1,024 x b200";
  good.layout = "tp2 <dp>";
  good.holds = true;
  good.reason = "the cheapest that holds";
  good.search = "proven";
  good.days = {40, 50, 60, 45};
  good.usd = {4e6, 5e6, 6e6, 4.5e6};
  good.gpu_hours = {1e6, 1.2e6, 1.4e6, 1.1e6};
  good.device_bytes = 70 * kGibOfGpu;
  good.capacity_bytes = 180 * kGibOfGpu;
  QuestionRow late = good;
  late.machine = "256 x h100";
  late.holds = false;
  late.reason = "late: 120 days of 90";
  late.days = {100, 120, 140, 110};
  QuestionRow none;
  none.machine = "8 x h100";
  none.reason = "no layout fits";
  page.rows = {good, late, none};
  page.notes = {"downtime not included"};
  return page;
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the page of a question begins with the first machine and its ranges") {
  const std::string html = to_html(page_of_machines());
  CHECK(says(html, "<p class=\"verdict ok\">✓ 1,024 x b200</p>"));
  CHECK(says(html,
             "<dt>Time to train</dt><dd class=\"value\">about 50.0&nbsp;days</dd><dd "
             "class=\"note\">40.0 days to 60.0 days; by the model 45.0 days"));
  CHECK(says(html, "<dt>Cost</dt><dd class=\"value\">about $5.00&nbsp;M</dd>"));
  CHECK(to_html(page_of_machines()) == html);
}

TEST_CASE("rows that lose say why, and rows without a layout have no numbers") {
  const std::string html = to_html(page_of_machines());
  CHECK(says(html, "<b>✗ 256 x h100</b>"));
  CHECK(says(html, "late: 120 days of 90"));
  CHECK(says(html,
             "<b>✗ 8 x h100</b><br><span class=\"muted\"></span></th><td "
             "class=\"number\"><span class=\"muted\">none</span>"));
}

TEST_CASE("the deadline is a line across the bars of days") {
  // The longest bar ends at 140 of 142.8 days, the deadline is at 90.
  CHECK(says(to_html(page_of_machines()), "<b style=\"left:63.025%\"></b>"));
  QuestionPage free = page_of_machines();
  free.deadline_days.reset();
  CHECK_FALSE(says(to_html(free), "<b style=\"left:63.025%\"></b>"));
}

TEST_CASE("without prices there are GPU hours, never a cost") {
  QuestionPage page = page_of_machines();
  page.budget_usd.reset();
  for (QuestionRow& row : page.rows) row.usd.reset();
  const std::string html = to_html(page);
  CHECK_FALSE(says(html, "$5"));
  CHECK_FALSE(says(html, "<dt>Cost</dt>"));
  CHECK(says(html, "<h3>GPU hours</h3>"));
}

TEST_CASE("a question that no machine answers says so, and no text is markup") {
  QuestionPage page = page_of_machines();
  page.rows.erase(page.rows.begin());
  const std::string html = to_html(page);
  CHECK(says(html, "✗ No machine holds"));
  CHECK_FALSE(says(to_html(page_of_machines()), "<model>"));
  CHECK_FALSE(says(to_html(page_of_machines()), "<dp>"));
}

}  // namespace shardsim::test
