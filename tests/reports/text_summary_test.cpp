#include "reports/text_summary.hpp"

#include <algorithm>
#include <sstream>
#include <vector>

#include <catch2/catch.hpp>

#include "reports/terminal_text.hpp"

#include "tests/reports/golden_file.hpp"
#include "tests/reports/sample_results.hpp"

namespace shardsim {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string text_of(const samples::Sample& sample, bool color = false, int width = 100) {
  return to_text(sample.result, sample.headline, {color, width, sample.next_command});
}

std::string without_colors(std::string text) {
  for (std::size_t start = 0; (start = text.find('\x1b', start)) != std::string::npos;) {
    text.erase(start, text.find('m', start) + 1 - start);
  }
  return text;
}

const std::vector<samples::Sample>& all_samples() {
  static const std::vector<samples::Sample> kSamples = {samples::plan(), samples::verified(),
                                                        samples::failed_verify(),
                                                        samples::deadlock(), samples::infeasible()};
  return kSamples;
}

void require_one_screen(const std::string& text, std::size_t columns) {
  const std::vector<std::string> lines = lines_of(text);
  REQUIRE(lines.size() <= 24);
  for (const std::string& line : lines) {
    INFO(line);
    REQUIRE(display_width(line) <= columns);
  }
}

TEST_CASE("loss scaling has a row where it acts, with all digits of the scale") {
  samples::Sample sample = samples::verified();
  CHECK(text_of(sample).find("loss scale") == std::string::npos);
  sample.headline.steps = 10;
  sample.result.metrics.push_back({"loss_scaling.skipped_steps", std::int64_t{4}});
  sample.result.metrics.push_back({"loss_scaling.scale", 1048576.0});
  CHECK(text_of(sample).find("  loss scale    1048576 at the end, 4 of 10 steps skipped\n") !=
        std::string::npos);
}

TEST_CASE("experts have a row where there are some, with what was dropped where tokens may be") {
  samples::Sample sample = samples::verified();
  CHECK(text_of(sample).find("experts") == std::string::npos);
  sample.result.metrics.push_back({"moe.load_imbalance", 1.25});
  CHECK(text_of(sample).find("  experts       busiest 1.25 x its layer's mean\n") !=
        std::string::npos);
  sample.result.metrics.push_back({"moe.dropped_tokens", std::int64_t{12}});
  CHECK(text_of(sample).find("12 token slots dropped") != std::string::npos);
}

TEST_CASE("an error band says what of its runs is like the plan, and where the scale is not") {
  samples::Sample sample = samples::plan();
  const auto line = [&](const std::string& start) {
    for (const std::string& one : lines_of(text_of(sample))) {
      if (one.rfind("  " + start, 0) == 0) return one;
    }
    return std::string();
  };
  MetricBand& time = sample.result.error_bands.front();
  CHECK(line("step") ==
        "  step about 3.00 s, 80 % of runs 2.25 to 3.75 s (54 measured of dense models on hopper, "
        "too few");
  time.too_few.clear();
  time.low = 0.98;
  CHECK(
      line("step") ==
      "  step about 3.00 s, 80 % of runs 980 ms to 3.75 s (54 measured of dense models on hopper)");
  time.group = "all models";
  time.most_ranks = 63;
  const std::string start =
      "  step about 3.00 s, 80 % of runs 980 ms to 3.75 s (54 measured of all models, ";
  CHECK(text_of(sample).find(start + "up to 63 GPUs)\n") != std::string::npos);
  time.most_ranks = 1024;
  time.least_ranks = 128;
  CHECK(text_of(sample).find(start + "from 128 GPUs)\n") != std::string::npos);
  // Each band says what it held of tables that it did not know.
  CHECK(line("70 % of runs").starts_with("  70 % of runs  on device about "));
  time.held_out_share = 0.5499;
  CHECK(line("step").starts_with("  step about 3.00 s, 50 % of runs "));
  sample.result.no_error_band = "only one table has measured runs with experts";
  CHECK(line("error band") ==
        "  error band    none: only one table has measured runs with experts");
  CHECK(line("step about").empty());
  CHECK(line("70 % of runs").empty());
}

TEST_CASE("a simulated number outside its band says how far such runs are off") {
  samples::Sample sample = samples::plan();
  const auto says = [&](const char* words) {
    return text_of(sample).find(words) != std::string::npos;
  };
  const double step = *sample.result.number(metric::kStepTimeS);
  MetricBand& time = sample.result.error_bands.front();
  time.bias = -0.123;
  time.low = step;
  time.high = step + 1;
  CHECK(says("\n  by the model "));
  CHECK_FALSE(says("outside"));
  time.low = step + 1e-6;
  CHECK(says("(outside that range: this group's bias is -12 %)"));
  time.low = step - 1;
  time.high = step - 1e-6;
  CHECK(says("(outside that range: this group's bias is -12 %)"));
}

TEST_CASE("what MFU counts is said below it, and not without it") {
  samples::Sample sample = samples::plan();
  const std::string words = "  MFU counts    causal pairs, chosen experts\n";
  CHECK(text_of(sample).find("MFU counts") == std::string::npos);
  sample.headline.mfu_counts = "causal pairs, chosen experts";
  CHECK(text_of(sample).find(words) != std::string::npos);
  std::erase_if(sample.result.metrics, [](const Metric& row) { return row.name == "mfu"; });
  CHECK(text_of(sample).find("MFU counts") == std::string::npos);
}

TEST_CASE("a verify run, whose times nobody asks for, shows no error band") {
  samples::Sample sample = samples::verified();
  sample.result.no_error_band = "a run with numbers is no plan";
  CHECK(text_of(sample).find("error band") == std::string::npos);
  sample.result.error_bands = samples::plan().result.error_bands;
  CHECK(text_of(sample).find("% of runs") == std::string::npos);
}

TEST_CASE("the summary of a plan is as approved") {
  require_golden("plan.txt", text_of(samples::plan()));
}

TEST_CASE("the summary of a verify run is as approved") {
  require_golden("verify.txt", text_of(samples::verified()));
}

TEST_CASE("the summary of a failed verify run is as approved") {
  require_golden("failed_verify.txt", text_of(samples::failed_verify()));
}

TEST_CASE("the summary of a deadlock is as approved") {
  require_golden("deadlock.txt", text_of(samples::deadlock()));
}

TEST_CASE("the summary of a plan that does not fit is as approved") {
  require_golden("infeasible.txt", text_of(samples::infeasible()));
}

TEST_CASE("every summary is one screen at any width, and colour changes no character") {
  for (const samples::Sample& sample : all_samples()) {
    for (const int width : {0, 80, 91, 100, 500}) {
      const std::string text = text_of(sample, false, width);
      require_one_screen(text, static_cast<std::size_t>(std::clamp(width, 80, 100)));
      REQUIRE(text.find('\x1b') == std::string::npos);
      const std::string colored = text_of(sample, true, width);
      REQUIRE(colored != text);
      REQUIRE(without_colors(colored) == text);
    }
  }
}

TEST_CASE("the shares of the step add up to 100.0 % for awkward thirds") {
  samples::Sample sample = samples::plan();
  for (Metric& metric : sample.result.metrics) {
    if (metric.name == "time.compute_s" || metric.name == "time.exposed_comm_s" ||
        metric.name == "time.bubble_s") {
      metric.value = 1.0 / 3;
    }
  }
  const std::string text = text_of(sample);
  REQUIRE(text.find("33.4 %") != std::string::npos);
  REQUIRE(text.find("33.3 %") != std::string::npos);
}

TEST_CASE("what waited for the host is shown if anything did") {
  samples::Sample sample = samples::plan();
  REQUIRE(text_of(sample).find("  host ") == std::string::npos);
  sample.result.metrics.push_back({"time.host_s", 0.0});
  REQUIRE(text_of(sample).find("  host ") == std::string::npos);
  sample.result.metrics.back().value = 2.5;  // As much as all the rest.
  const std::vector<std::string> lines = lines_of(text_of(sample));
  const auto host = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.rfind("  host ", 0) == 0;
  });
  REQUIRE(host != lines.end());
  REQUIRE(host->find("50.0 %") != std::string::npos);
}

TEST_CASE("expectations are never cut, and say that they judge the model's number") {
  samples::Sample sample = samples::plan();
  sample.result.expectations.clear();
  for (int i = 0; i < 30; ++i) {
    sample.result.expectations.push_back({"step_time_s", "<=", 100.0 + i, 2.0, true});
    sample.result.expectations.push_back({"ranks", ">=", 100.0 + i, 64.0, false});
  }
  const std::string text = text_of(sample);
  for (int i = 0; i < 30; ++i) {
    CHECK(text.find("✓ step_time_s <= " + std::to_string(100 + i) + " s: 2.00 s by the model\n") !=
          std::string::npos);
    CHECK(text.find("✗ ranks >= " + std::to_string(100 + i) + ": 64.0\n") != std::string::npos);
  }
  sample.result.error_bands.clear();
  CHECK(text_of(sample).find("2.00 s by the model") == std::string::npos);
}

TEST_CASE("a flood of failures still is one screen and says what was cut") {
  samples::Sample sample = samples::failed_verify();
  sample.result.diagnosis = samples::deadlock().result.diagnosis;
  for (int i = 0; i < 100; ++i) {
    sample.result.checks.push_back({"check " + std::to_string(i), false, std::string(300, 'x')});
    sample.result.warnings.push_back("line one\nline two " + std::string(300, 'w'));
  }
  const std::string text = text_of(sample);
  require_one_screen(text, 100);
  REQUIRE(lines_of(text).size() == 24);
  REQUIRE(text.find("more lines in --json") != std::string::npos);
  REQUIRE(text.find("oracle: gradient of blocks.1.mlp.up.weight") != std::string::npos);
  REQUIRE(text.find("DEADLOCK") != std::string::npos);
  REQUIRE(text.find("FAILED: 101 checks and 1 expectation") != std::string::npos);
  REQUIRE(text.find("Next: ") != std::string::npos);
}

TEST_CASE("a value that rounds to its limit is shown with all digits") {
  samples::Sample sample = samples::plan();
  sample.result.expectations = {{"mfu", ">=", 0.4, 0.39999, false}};
  REQUIRE(text_of(sample).find("mfu >= 0.4: 0.39999") != std::string::npos);
}

TEST_CASE("no name can put a control character on the screen") {
  const std::string evil = "\x1b[2J\r\x07\xc2\x9b";
  samples::Sample sample = samples::failed_verify();
  sample.headline = {evil, evil, evil, evil, evil, evil, 8, 0};
  sample.next_command = evil;
  sample.result.checks = {{evil, true, evil}, {evil, false, evil}};
  sample.result.expectations = {{evil, evil, 1, 2, false}};
  sample.result.warnings = {evil};
  sample.result.diagnosis = Diagnosis{};
  sample.result.diagnosis->summary = evil;
  sample.result.diagnosis->hint = evil;
  const std::string text = text_of(sample);
  REQUIRE(text.find("\\x1b[2J\\x0d\\x07\\x9b") != std::string::npos);
  REQUIRE(std::none_of(text.begin(), text.end(), [](char c) {
    return c != '\n' && (static_cast<unsigned char>(c) < 0x20 || c == 0x7f);
  }));
  REQUIRE(text.find("\xc2\x9b") == std::string::npos);
}

TEST_CASE("a result without metrics says how it ended") {
  Result result;
  result.exit_code = 70;
  REQUIRE(to_text(result, {}, {}) == "  FAILED (exit code 70)\n");
  result.exit_code = 5;
  REQUIRE(to_text(result, {}, {}) == "  FAILED: an error on the real backend\n");
  result.diagnosis = Diagnosis{.code = "RANK_DIED", .summary = "rank 2 has died"};
  const std::string text = to_text(result, {}, {});
  REQUIRE(text.find("FAILED: RANK_DIED on the real backend") != std::string::npos);
}

}  // namespace
}  // namespace shardsim
