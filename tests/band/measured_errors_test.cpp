#include "sim/run/band/measured_errors.hpp"

#include <algorithm>

#include <catch2/catch.hpp>

#include "scenarios/scenario_error.hpp"

#include "tests/app/command_fixture.hpp"

namespace shardsim::test {
namespace {

const RunSetting kEight{"a100", "megatron", 8};
const RunSetting kSixteen{"a100", "megatron", 16};

std::string code_of(const std::string& text) {
  try {
    (void)parse_measured_errors(text, "errors.json");
  } catch (const ScenarioError& error) {
    return error.code();
  }
  return {};
}

constexpr const char* kGroup =
    R"([{"quantity": "step_time_s", "table": "t", "device": "d", "software": "s", "model": "dense", )"
    R"("errors": )";

}  // namespace

TEST_CASE("errors are grouped, sorted and rounded, and the order they come in does not matter") {
  std::vector<MeasuredError> errors = {{"step_time_s", "one", kSixteen, 0.25},
                                       {"step_time_s", "one", kEight, 0.12344},
                                       {"step_time_s", "one", kEight, -0.5},
                                       {"step_time_s", "one", kEight, -0.00001}};
  const std::string text = measured_errors_text(errors);
  CHECK(contains(text, R"([
  {"quantity": "step_time_s", "table": "one", "device": "a100",
   "software": "megatron", "model": "dense", "errors": {
    "8": [-0.5000, 0.0000, 0.1234],
    "16": [0.2500]
  }}
]
)"));
  std::reverse(errors.begin(), errors.end());
  CHECK(measured_errors_text(errors) == text);
  const std::vector<MeasuredError> read = parse_measured_errors(text, "errors.json").errors;
  REQUIRE(read.size() == 4);
  CHECK(read[2].error == 0.1234);
  CHECK(read[2].setting.ranks == 8);
  CHECK(read[3].setting.ranks == 16);
  CHECK(read[3].setting.device == "a100");
  CHECK(read[3].setting.software == "megatron");
  CHECK(read[3].table == "one");
  CHECK(read[3].quantity == "step_time_s");
  CHECK(measured_errors_text(read) == text);
}

TEST_CASE("rows with experts are apart from rows without") {
  RunSetting experts = kEight;
  experts.has_experts = true;
  const std::string text = measured_errors_text(
      {{"step_time_s", "one", experts, 0.25}, {"step_time_s", "one", kEight, 0.5}});
  CHECK(contains(text, R"("model": "dense", "errors": {
    "8": [0.5000])"));
  CHECK(contains(text, R"("model": "experts", "errors": {
    "8": [0.2500])"));
  const std::vector<MeasuredError> read = parse_measured_errors(text, "errors.json").errors;
  REQUIRE(read.size() == 2);
  CHECK_FALSE(read[0].setting.has_experts);
  CHECK(read[1].setting.has_experts);
}

TEST_CASE("long lists are broken into lines") {
  const std::vector<MeasuredError> many(100, {"step_time_s", "one", kEight, 0.25});
  const std::string text = measured_errors_text(many);
  CHECK(parse_measured_errors(text, "errors.json").errors.size() == 100);
  CHECK(std::count(text.begin(), text.end(), '\n') > 10);
}

TEST_CASE(
    "the share that bands hold of tables they do not know is computed as errors are written") {
  // Times of the one are twice, of the other a quarter of what was predicted: neither holds any of
  // the other's. Both hold all of the peaks.
  std::vector<MeasuredError> errors;
  for (int i = 0; i < 20; ++i) {
    errors.push_back({"step_time_s", "a", kEight, -0.5});
    errors.push_back({"step_time_s", "b", kEight, 3.0});
    errors.push_back({"peak_memory_bytes", "a", {"a100", "none", 8}, 0.25});
    errors.push_back({"peak_memory_bytes", "b", {"a100", "none", 8}, 0.25});
  }
  const std::string text = measured_errors_text(errors);
  CHECK(contains(text, R"([
  {"quantity": "peak_memory_bytes", "software": "none",
   "group": "dense models on ampere", "held_out_share": 1.0000},
  {"quantity": "peak_memory_bytes", "software": "none",
   "group": "dense models", "held_out_share": 1.0000},
)"));
  const MeasuredErrors known = parse_measured_errors(text, "errors.json");
  CHECK(known.errors.size() == 80);
  const auto share = [&](const char* quantity, const char* software, const char* group) {
    return held_out_share(known, quantity, software, group);
  };
  CHECK(share("peak_memory_bytes", "none", "all models") == 1.0);
  CHECK(share("step_time_s", "megatron", "all models") == 0.0);
  CHECK_FALSE(share("step_time_s", "none", "all models"));
  CHECK_FALSE(share("peak_memory_bytes", "megatron", "all models"));
  CHECK_FALSE(share("step_time_s", "megatron", "models with experts"));
}

TEST_CASE("a file that holds something else is told with its line") {
  CHECK(code_of(std::string(kGroup) + R"({"8": [0.5]}}])").empty());
  CHECK(code_of("{}") == "E0932");
  CHECK(code_of("[1]") == "E0932");
  CHECK(code_of(R"([{"quantity": "step_time_s"}])") == "E0932");
  std::string sparse = std::string(kGroup) + R"({"8": [0.5]}}])";
  sparse.replace(sparse.find("dense"), 5, "sparse");
  CHECK(code_of(sparse) == "E0932");
  CHECK(code_of(std::string(kGroup) + "[]}]") == "E0932");
  const std::string share =
      R"([{"quantity": "q", "software": "any", "group": "g", "held_out_share": )";
  CHECK(code_of(share + "0.5}]").empty());
  CHECK(code_of(share + "1.5}]") == "E0932");
  CHECK(code_of(share + "true}]") == "E0932");
  CHECK(code_of(share + R"(0.5, "table": "t"}])") == "E0932");
  CHECK(code_of(std::string(kGroup) + R"({"8": [0.5]}, "more": 1}])") == "E0932");
  CHECK(code_of(std::string(kGroup) + R"({"many": [0.5]}}])") == "E0932");
  CHECK(code_of(std::string(kGroup) + R"({"0": [0.5]}}])") == "E0932");
  CHECK(code_of(std::string(kGroup) + R"({"8": 0.5}}])") == "E0932");
  CHECK(code_of(std::string(kGroup) + R"({"8": ["0.5"]}}])") == "E0932");
  CHECK(code_of(std::string(kGroup) + R"({"8": [-1.0]}}])") == "E0932");  // Nothing was predicted.
}

TEST_CASE(
    "the errors that are built in are those of the file, whole, under and without frameworks") {
  const std::string file = content_of("sim/run/band/measured_errors.json");
  const std::vector<MeasuredError>& errors = built_in_measured_errors().errors;
  CHECK(measured_errors_text(errors) == file);
  const auto count = [&](const char* quantity, bool has_framework) {
    return std::count_if(errors.begin(), errors.end(), [&](const MeasuredError& error) {
      return error.quantity == quantity && (error.setting.software != "none") == has_framework;
    });
  };
  CHECK(count("step_time_s", true) > 1000);
  CHECK(count("step_time_s", false) == count("step_time_s", true));
  CHECK(count("peak_memory_bytes", true) > 100);
}

}  // namespace shardsim::test
