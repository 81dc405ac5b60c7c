#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "reports/html/parts.hpp"
#include "reports/stage_groups.hpp"

#include "tests/reports/sample_details.hpp"

namespace shardsim {
namespace {

bool shows(const std::string& markup, const std::string& part) {
  return markup.find(part) != std::string::npos;
}

html::Input input_of(const samples::Page& page) {
  return {page.sample.result, page.sample.headline, page.detail};
}

StageTime stage_with(std::int64_t stage, double compute_s, std::int64_t params) {
  StageTime time{.stage = stage, .compute_s = compute_s, .bubble_s = 1.0 - compute_s};
  time.at_peak[0] = params;
  return time;
}

TEST_CASE("The step is shown in seconds and percent that sum to it") {
  const samples::Page page = samples::small_page();
  const std::string markup = html::time_overview(input_of(page));
  CHECK(shows(markup, "computing</span><span class=\"amount\">2.06 s, 82.5 %"));
  CHECK(shows(markup, "waiting for tp</span><span class=\"amount\">219 ms, 8.8 %"));
  CHECK(shows(markup, "waiting for dp</span><span class=\"amount\">62.5 ms, 2.5 %"));
  CHECK(shows(markup, "bubble and idle</span><span class=\"amount\">125 ms, 5.0 %"));
  CHECK(shows(markup, "whole step</span><span class=\"amount\">2.50 s"));
}

TEST_CASE("Without axes all waiting is one part") {
  const samples::Page page = samples::bare_page();
  CHECK(shows(html::time_overview(input_of(page)), "waiting for communication</span>"));
  CHECK_FALSE(shows(html::time_overview(input_of(page)), "waiting for tp"));
}

TEST_CASE("Memory is shown against what a GPU has, and with the runs of its band") {
  const samples::Page page = samples::small_page();
  const std::string markup = html::memory_overview(input_of(page));
  CHECK(shows(markup, "in use</span><span class=\"amount\">52.0 GiB, 69.8 %"));
  CHECK(shows(markup, "a GPU has</span><span class=\"amount\">74.5 GiB"));
  CHECK(shows(markup, "<b style=\"left:88.009%\">"));
  samples::Page unknown = page;
  unknown.sample.headline.device_memory_bytes = 0;
  CHECK_FALSE(shows(html::memory_overview(input_of(unknown)), "a GPU has"));
}

TEST_CASE("A tile has the centre of its band, the model beside it, and the range") {
  const std::string markup = html::tiles(input_of(samples::small_page()));
  CHECK(shows(markup,
              "<dt>Step time</dt><dd class=\"value\">about 3.00&nbsp;s <span class=\"model\">by "
              "the model 2.50 s</span></dd><dd class=\"note\">80 % of runs: 2.25 to 3.75 s"));
  // The band of a rate is that of the step the other way round.
  CHECK(shows(markup, "about&nbsp;5,460 <span class=\"model\">by the model 6,550</span>"));
  CHECK(shows(markup, "4,370 to 7,280"));
  CHECK(shows(markup, "about 33.1&nbsp;days <span class=\"model\">by the model 27.6 days</span>"));
  CHECK(shows(markup, "24.8 days to 41.4 days"));
}

TEST_CASE("A model that lies outside its range says so") {
  samples::Page page = samples::small_page();
  page.sample.result.error_bands.front().low = 2.6;
  page.sample.result.error_bands.front().bias = -0.12;
  CHECK(shows(html::tiles(input_of(page)),
              "the model lies outside: the bias of this group is -12 %"));
}

TEST_CASE("Neighbouring stages that look alike are one") {
  std::vector<StageTime> stages = {stage_with(0, 0.5, 100), stage_with(1, 0.6, 80),
                                   stage_with(2, 0.6, 70), stage_with(3, 0.604, 60),
                                   stage_with(4, 0.608, 60)};
  const std::vector<StageGroup> groups = groups_by_time(stages);
  REQUIRE(groups.size() == 3);
  CHECK(name_of(groups[0], stages) == "stage 0");
  CHECK(name_of(groups[1], stages) == "stages 1 to 3");
  // Each is near the one before it, but the last is too far from the first of them.
  CHECK(name_of(groups[2], stages) == "stage 4");
  CHECK(groups_by_memory(stages).size() == 4);
  CHECK(groups_by_time({}).empty());
}

TEST_CASE("Traffic is shown by axis and tier, ranks in pairs folded below") {
  const std::string markup = html::traffic_part(input_of(samples::small_page()));
  CHECK(shows(markup,
              "<th scope=\"row\">tp</th><td class=\"number\"><span class=\"heat\" "
              "style=\"--heat:100%\">2.10 TB</span></td><td class=\"number\"><span "
              "class=\"heat\">none</span></td><td class=\"number\">2.10 TB</td>"));
  CHECK(shows(markup, "<details><summary>From rank to rank</summary>"));
}

}  // namespace
}  // namespace shardsim
