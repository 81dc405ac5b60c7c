#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "scenarios/field.hpp"

#include "tests/scenarios/support.hpp"

// The section "faults": what is refused, where and with which way out, and what is kept.
namespace shardsim::testing {
namespace {

using Json = nlohmann::json;

// In a machine of two nodes of four, without a pipeline; faults on line 22.
std::string with_faults(const std::string& faults) {
  return valid_text_with("\"precision\": \"fp64\"\n  }\n",
                         "\"precision\": \"fp64\"\n  },\n  \"faults\": {\n" + faults + "\n  }\n");
}

struct Refused {
  const char* faults;
  const char* code;
  const char* at;  // The place of the problem, as it is written.
  const char* pointer;
  const char* message;
  const char* help;
};

constexpr int kLine = 22;  // The line of the text between the braces of the section.

}  // namespace

TEST_CASE("wrong faults are refused where they stand, with a way out") {
  const std::vector<Refused> refused = {
      {R"("stragglers": [{"slowdown": 2}])", "E0270", "2}", "/faults/stragglers/0/slowdown",
       "a straggler without a rank, stage or node", "give exactly one of rank, stage and node"},
      {R"("stragglers": [{"rank": 1, "node": 0, "slowdown": 2}])", "E0270", "0, \"slow",
       "/faults/stragglers/0/node", "chosen in 2 ways", "give exactly one"},
      {R"("stragglers": [{"rank": 8, "slowdown": 2}])", "E0271", "8", "/faults/stragglers/0/rank",
       "there is no rank 8", "ranks go from 0 to 7 (system.ranks)"},
      {R"("stragglers": [{"stage": 1, "slowdown": 2}])", "E0271", "1, ",
       "/faults/stragglers/0/stage", "there is no stage 1",
       "stages go from 0 to 0 (parallelism.pp)"},
      {R"("stragglers": [{"node": 2, "slowdown": 2}])", "E0271", "2, ", "/faults/stragglers/0/node",
       "there is no node 2", "nodes go from 0 to 1 (system.nodes)"},
      {R"("stragglers": [{"rank": 1, "slowdown": 0.5}])", "E0102", "0.5",
       "/faults/stragglers/0/slowdown", "\"slowdown\" is 0.5, out of range", "at least 1"},
      {R"("stragglers": [{"rank": 1}])", "E0103", "{", "/faults/stragglers/0",
       "a straggler without \"slowdown\"", "such as {\"rank\": 3, \"slowdown\": 1.2}"},
      {R"("stragglers": [{"rank": 1, "slow_down": 2, "slowdown": 2}])", "E0107", "\"slow_down",
       "/faults/stragglers/0/slow_down", "unknown field \"slow_down\"", ""},
      {R"("stragglers": {"rank": 1})", "E0101", "{", "/faults/stragglers", "must be a list",
       "such as [{\"rank\": 3, \"slowdown\": 1.2}]"},
      {R"("stragglers": [3])", "E0101", "3]", "/faults/stragglers/0",
       "a straggler must be an object, not the number 3", "such as {\"rank\""},
      {R"("slow_links": [{"bandwidth_factor": 0.5}])", "E0272", "{", "/faults/slow_links/0",
       "without a node or a tier", "\"node\": 3 is that node's network cards"},
      {R"("slow_links": [{"node": 2, "bandwidth_factor": 0.5}])", "E0271", "2, ",
       "/faults/slow_links/0/node", "there is no node 2", "nodes go from 0 to 1"},
      {R"("slow_links": [{"node": 1}])", "E0278", "1}", "/faults/slow_links/0/node",
       "a slow link that is not slower", "\"bandwidth_factor\": 0.5"},
      {R"("slow_links": [{"node": 1, "bandwidth_factor": 1.5}])", "E0102", "1.5",
       "/faults/slow_links/0/bandwidth_factor", "out of range", "at most 1"},
      {R"("slow_links": [{"tier": "nvlink", "bandwidth_factor": 0.5}])", "E0104", "\"nvlink",
       "/faults/slow_links/0/tier", "cannot be \"nvlink\"", "inter_node"},
      {R"("flapping_links": [{"node": 1, "down_s": 2, "period_s": 2}])", "E0274", "2, \"period",
       "/faults/flapping_links/0/down_s", "nothing would ever move",
       "make down_s less than period_s"},
      {R"("flapping_links": [{"node": 1, "down_s": 1e-8, "period_s": 1e-7}])", "E0274", "1e-7",
       "/faults/flapping_links/0/period_s", "below 1e-06 s", "write the period in seconds"},
      {R"("gpu_mtbf_hours": 50000, "restart_s": 600)", "E0276", "50000", "/faults/gpu_mtbf_hours",
       "not how long a checkpoint takes", "\"checkpoint_write_s\": 30"},
      {R"("node_mtbf_hours": 5000, "checkpoint_write_s": 5)", "E0277", "5000, ",
       "/faults/node_mtbf_hours", "not how long a restart takes", "\"restart_s\": 600"},
      {R"("gpu_mtbf_hours": 5e4, "restart_s": 6, "checkpoint_write_s": 5, "checkpoint_gb_per_s": 9)",
       "E0275", "9", "/faults/checkpoint_gb_per_s", "given twice", "give one of them"},
      {R"("draws": {"compute_jitter": {"distribution": "uniform", "spread": 0.1}})", "E0279", "0.1",
       "/faults/draws/compute_jitter/spread", "no number of draws", "\"count\": 1000"},
      {R"("draws": {"count": 10})", "E0280", "10", "/faults/draws/count", "nothing to draw",
       "\"stragglers\" or a jitter"},
      {R"("draws": {"count": 10, "compute_jitter": {"spread": 0.1}})", "E0281", "0.1",
       "/faults/draws/compute_jitter/spread", "a spread without a distribution",
       "\"distribution\": \"lognormal\""},
      {R"("draws": {"count": 10, "communication_jitter": {"distribution": "uniform"}})", "E0281",
       "\"uniform", "/faults/draws/communication_jitter/distribution",
       "a distribution without a spread", "write both"},
      {R"("draws": {"count": 10, "stragglers": [{"probability": 0.5, "slowdown": 2, "spread": 1}]})",
       "E0281", "1}", "/faults/draws/stragglers/0/spread", "a spread without a distribution",
       "write both"},
      {R"("draws": {"count": 10, "stragglers": [{"probability": 0, "slowdown": 2}]})", "E0102",
       "0, \"slow", "/faults/draws/stragglers/0/probability", "out of range", ""},
  };
  for (const Refused& each : refused) {
    INFO(each.faults);
    const Problem problem = only_problem_of(with_faults(each.faults));
    CHECK(problem.code == each.code);
    CHECK(problem.file == "test.json");
    CHECK(problem.line == kLine);
    CHECK(problem.column == 1 + static_cast<int>(std::string(each.faults).find(each.at)));
    CHECK(problem.pointer == each.pointer);
    CHECK(problem.message.find(each.message) != std::string::npos);
    CHECK(problem.help.find(each.help) != std::string::npos);
  }
}

TEST_CASE("a tier that the machine does not have cannot be slow") {
  const std::string text =
      with_faults(R"("slow_links": [{"tier": "inter_node", "bandwidth_factor": 0.5}])");
  const Problem problem = only_problem_of(text, {"system.nodes=1"});
  CHECK(problem.code == "E0273");
  CHECK(problem.message == "no link is inter_node here, as system.nodes is 1");
}

TEST_CASE("draws are of plans, and of links that do not flap") {
  const std::string draws =
      R"("draws": {"count": 5, "stragglers": [{"probability": 0.5, "slowdown": 2}]})";
  const Problem real = only_problem_of(with_faults(draws), {"execution.tensors=real"});
  CHECK(real.code == "E0282");
  CHECK(real.message == "draws are of plans, and this run has real tensors");
  const Problem flapping = only_problem_of(
      with_faults(R"("flapping_links": [{"node": 1, "down_s": 1, "period_s": 2}], )" + draws));
  CHECK(flapping.code == "E0282");
  CHECK(flapping.pointer == "/faults/draws/count");
  CHECK(flapping.help == "remove \"flapping_links\" or \"draws\"");
}

TEST_CASE("all wrong faults are told in one pass") {
  const auto problems = problems_of(with_faults(
      R"("stragglers": [{"rank": 9, "slowdown": 2}, {"node": 9, "slowdown": 2}],
         "slow_links": [{"node": 9, "bandwidth_factor": 0.5}], "gpu_mtbf_hours": 1e4)"));
  REQUIRE(problems.size() == 5);
  CHECK(problems[1].pointer == "/faults/stragglers/1/node");
}

TEST_CASE("the resolved scenario keeps every fault, and loads again to the same") {
  const std::string text = with_faults(
      R"("stragglers": [{"rank": 3, "slowdown": 1.5}, {"node": 1, "slowdown": 2}],
         "slow_links": [{"tier": "intra_node", "bandwidth_factor": 0.5}],
         "flapping_links": [{"node": 1, "down_s": 0.25, "period_s": 60}],
         "gpu_mtbf_hours": {"value": 50677, "source": "Llama 3, table 5"},
         "checkpoint_gb_per_s": 100, "restart_s": 600)");
  const Scenario scenario = loaded(text);
  const Json faults = Json::parse(scenario.resolved_json)["faults"];
  CHECK(faults["stragglers"] == Json::parse(R"([{"rank": 3, "slowdown": 1.5},
                                                {"node": 1, "slowdown": 2}])"));
  CHECK(faults["slow_links"] == Json::parse(R"([{"tier": "intra_node", "bandwidth_factor": 0.5,
                                                 "added_latency_us": 0}])"));
  CHECK(faults["flapping_links"] == Json::parse(R"([{"node": 1, "tier": "inter_node",
                                      "down_s": 0.25, "period_s": 60, "phase_s": 0}])"));
  CHECK(faults["checkpoint_interval_s"] == "auto");
  CHECK(faults["checkpoint_write_s"] == "auto");
  CHECK(faults["gpu_mtbf_hours"] == 50677);
  CHECK(loaded(scenario.resolved_json).resolved_json == scenario.resolved_json);
  CHECK(scenario.faults.stragglers[1].slowdown == 2.0);
  CHECK(scenario.faults.stragglers[1].rank == kNotChosen);
  const bool is_named =
      std::any_of(scenario.sources.begin(), scenario.sources.end(), [](const NumberSource& number) {
        return number.field == "faults.gpu_mtbf_hours" && number.source == "Llama 3, table 5";
      });
  CHECK(is_named);
}

TEST_CASE("a scenario without faults says nothing of them") {
  const Scenario scenario = loaded(valid_text());
  CHECK_FALSE(Json::parse(scenario.resolved_json).contains("faults"));
  for (const NumberSource& number : scenario.sources) {
    CHECK(number.field.rfind("faults.", 0) != 0);
  }
}

TEST_CASE("a default of a key in a list is what an object without it holds") {
  const std::string text = with_faults(
      R"("slow_links": [{"node": 1, "added_latency_us": 0}],
         "flapping_links": [{"node": 1, "down_s": 1, "period_s": 2}])");
  const Scenario scenario = loaded(text);
  const Scenario drawn = loaded(
      with_faults(R"("draws": {"count": 1, "stragglers": [{"probability": 0.5, "slowdown": 2}]})"),
      {"execution.tensors=meta"});
  const Scenario layered =
      loaded(replaced(valid_text(), "\"num_layers\": 2", "\"layers\": [{\"repeats\": 1}]"));
  for (const Field& field : field_table()) {
    if (!is_item_field(field) || field.default_json.empty()) continue;
    INFO(field.path);
    const auto value = field.get_item(field.path.starts_with("faults.draws.")  ? drawn
                                      : field.path.starts_with("model.layers") ? layered
                                                                               : scenario,
                                      0);
    REQUIRE(value.has_value());
    const Json written = Json::parse(field.default_json);
    if (const auto* number = std::get_if<double>(&*value)) CHECK(*number == written.get<double>());
    if (const auto* name = std::get_if<std::string>(&*value))
      CHECK(*name == written.get<std::string>());
    if (const auto* truth = std::get_if<bool>(&*value)) CHECK(*truth == written.get<bool>());
    if (const auto* count = std::get_if<std::int64_t>(&*value)) {
      CHECK(*count == written.get<std::int64_t>());
    }
  }
}

TEST_CASE("times of checkpoints without failures are a warning") {
  const Scenario scenario = loaded(with_faults(R"("checkpoint_write_s": 30, "restart_s": 5)"));
  REQUIRE(scenario.warnings.size() == 2);
  CHECK(scenario.warnings[0] ==
        "faults.checkpoint_write_s has no effect here: it acts only when failures are given");
}

}  // namespace shardsim::testing
