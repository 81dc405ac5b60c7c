#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "strategies/model/expert_layer.hpp"

#include "scenarios/load.hpp"
#include "scenarios/scenario_error.hpp"
#include "sim/run/decision_file.hpp"
#include "sim/run/run.hpp"

#include "tests/app/command_fixture.hpp"

// Learned routing: recorded by runs with data, replayed by plans, refused where it cannot have
// been.
namespace shardsim::test {
namespace {

using nlohmann::json;

constexpr const char* kLearned = "scenarios/verify-llama-ep4-learned.json";
constexpr const char* kPipeline = "scenarios/verify-llama-tp2-pp2-dp2-ep2-zb-v.json";
constexpr const char* kDropping = "scenarios/verify-llama-ep4-capacity.json";

Scenario learned(std::vector<std::string> overrides = {}) {
  overrides.emplace_back("execution.steps=2");
  return load_scenario(kLearned, overrides);
}

// The first problem of a record in which one value is another; "none" if it is taken.
std::string code_with(const json& record, const Scenario& scenario, const char* pointer,
                      const json& value) {
  json file = record;
  file[json::json_pointer(pointer)] = value;
  try {
    static_cast<void>(parse_decisions(file.dump(), compile(scenario), "routing.json"));
  } catch (const ScenarioError& error) {
    return error.problems().front().code;
  }
  return "none";
}

}  // namespace

TEST_CASE("a plan that replays learned routing has the trace of the run") {
  for (const char* recompute : {"none", "full", "selective"}) {
    const std::vector<std::string> common = {std::string("training.recompute=") + recompute,
                                             "training.recompute_modules=moe"};
    const Scenario real = learned(common);
    const RunOutcome outcome = run_scenario(real);
    REQUIRE(outcome.result.exit_code == 0);
    const std::string text = to_text(*outcome.decisions, compile(real));
    const Scenario meta = learned({common[0], common[1], "execution.tensors=meta"});
    const DecisionLog read = parse_decisions(text, compile(meta), "");
    CHECK(read == *outcome.decisions);
    const Result planned = run_scenario(meta, {.replay = &read}).result;
    CHECK(*planned.find("trace_hash") == *outcome.result.find("trace_hash"));
    CHECK(*planned.find("moe.load_imbalance") == *outcome.result.find("moe.load_imbalance"));
    // Without it tokens go evenly, which is another trace.
    CHECK_FALSE(*run_scenario(meta).result.find("trace_hash") == *planned.find("trace_hash"));
  }
}

TEST_CASE("a plan replays where learned tokens went, once to each node") {
  for (const char* name : {"ep4-per-node", "ep8-per-node-limit"}) {
    const std::string path = std::string("scenarios/verify-llama-") + name + ".json";
    const Scenario real = load_scenario(path, {"execution.steps=2"});
    const RunOutcome outcome = run_scenario(real);
    REQUIRE(outcome.result.exit_code == 0);
    const Scenario meta = load_scenario(path, {"execution.steps=2", "execution.tensors=meta"});
    const DecisionLog read =
        parse_decisions(to_text(*outcome.decisions, compile(real)), compile(meta), "");
    CHECK(read == *outcome.decisions);
    const Result planned = run_scenario(meta, {.replay = &read}).result;
    CHECK(*planned.find("trace_hash") == *outcome.result.find("trace_hash"));
  }
}

TEST_CASE("a record of tokens that nobody sends to a node, or to a rank, is refused") {
  const Scenario scenario =
      load_scenario("scenarios/verify-llama-ep4-per-node.json", {"execution.steps=1"});
  const json record = json::parse(to_text(*run_scenario(scenario).decisions, compile(scenario)));
  // To eight experts, of two here; to two nodes and from them, to two ranks and from them.
  const json first = record["decisions"][0]["numbers"][0];
  REQUIRE(first.size() == 8 + 2 + 4 + 4);
  CHECK(code_with(record, scenario, "/decisions/0/numbers/0", first) == "none");
  for (std::size_t i = 0; i < first.size(); ++i) {
    INFO(i);
    const std::string pointer = "/decisions/0/numbers/0/" + std::to_string(i);
    CHECK(code_with(record, scenario, pointer.c_str(), first[i].get<int>() + 1) == "E0909");
  }
}

// Experts in the later blocks alone, so that ranks have different numbers of them: those of the
// last stage are on pipeline rank 0 where chunks go down and up, on the last rank elsewhere.
TEST_CASE("learned routing is replayed wherever a schedule puts the stages with experts") {
  const TemporaryFolder folder;
  const std::string csv = folder / "v.csv";
  std::ofstream(csv) << shardsim({"schedule", kPipeline, "--csv"}).out;
  const std::vector<std::vector<std::string>> schedules = {
      {"parallelism.schedule=1f1b"},
      {"parallelism.schedule=interleaved_1f1b", "parallelism.vpp=2"},
      {"parallelism.schedule=zb_v"},
      {"parallelism.schedule=v_half"},
      {"parallelism.schedule=v_min"},
      {"parallelism.schedule=dualpipe_v"},
      {"parallelism.schedule=file", "parallelism.schedule_file=" + csv}};
  for (const std::vector<std::string>& schedule : schedules) {
    INFO(schedule.front());
    std::vector<std::string> overrides = {"model.moe_routing=learned", "model.first_dense_layers=5",
                                          "model.ffn_hidden_size=40", "model.num_layers=8",
                                          "execution.steps=1"};
    overrides.insert(overrides.end(), schedule.begin(), schedule.end());
    const Scenario real = load_scenario(kPipeline, overrides);
    const RunOutcome outcome = run_scenario(real);
    REQUIRE(outcome.result.exit_code == 0);
    overrides.emplace_back("execution.tensors=meta");
    const Scenario meta = load_scenario(kPipeline, overrides);
    const DecisionLog read =
        parse_decisions(to_text(*outcome.decisions, compile(real)), compile(meta), "");
    CHECK(read == *outcome.decisions);
    const Result planned = run_scenario(meta, {.replay = &read}).result;
    CHECK(*planned.find("trace_hash") == *outcome.result.find("trace_hash"));
  }
}

TEST_CASE("with a capacity the trace needs no record, but what is dropped does") {
  const Scenario real = load_scenario(kDropping);
  const RunOutcome outcome = run_scenario(real);
  const Scenario meta = load_scenario(kDropping, {"execution.tensors=meta"});
  const Result alone = run_scenario(meta).result;
  CHECK(*alone.find("trace_hash") == *outcome.result.find("trace_hash"));
  CHECK(alone.find("moe.dropped_tokens") == nullptr);  // Nobody knows: it is not measured.
  const Result declared = run_scenario(load_scenario(kDropping, {"execution.tensors=meta",
                                                                 "model.moe_routing=uniform"}))
                              .result;
  CHECK(declared.find("moe.dropped_tokens") != nullptr);
  const Result replayed = run_scenario(meta, {.replay = &*outcome.decisions}).result;
  CHECK(*replayed.find("moe.dropped_tokens") == *outcome.result.find("moe.dropped_tokens"));
}

TEST_CASE("a record of routing that cannot have been is refused where it is wrong") {
  const Scenario scenario = learned();
  const json record = json::parse(to_text(*run_scenario(scenario).decisions, compile(scenario)));
  const auto code = [&](const char* pointer, const json& value) {
    return code_with(record, scenario, pointer, value);
  };
  REQUIRE(record["version"] == 2);
  REQUIRE(record["decisions"].size() == 4);  // Each rank routes for itself.
  const json first = record["decisions"][0]["numbers"][0];
  REQUIRE(first.size() == 16);  // To and from eight experts.
  CHECK(code("/decisions/0/numbers/0", first) == "none");
  CHECK(code("/version", 1) == "E0909");
  CHECK(code("/decisions/0/ranks", {0, 1}) == "E0909");
  CHECK(code("/decisions/0/ranks", {1, 1}) == "E0909");
  CHECK(code("/decisions/0/answers", "01") == "E0909");
  CHECK(code("/decisions/0/numbers", 3) == "E0909");
  CHECK(code("/decisions/0/numbers", json::array()) == "E0909");
  CHECK(code("/decisions/0/numbers/0", 3) == "E0909");
  CHECK(code("/decisions/0/numbers/0", {1, 2}) == "E0909");
  CHECK(code("/decisions/0/numbers/0/3", -1) == "E0909");
  CHECK(code("/decisions/0/numbers/0/3", 1e300) == "E0909");
  CHECK(code("/decisions/0/numbers/0/3", 1.5) == "E0909");
  // One token more than there are; one that its sender does not send.
  CHECK(code("/decisions/0/numbers/0/3", first[3].get<int>() + 1) == "E0909");
  CHECK(code("/decisions/0/numbers/0/12", first[12].get<int>() + 1) == "E0909");
  CHECK(code("/decisions/3/name", "converged") == "E0909");
  json less = record["decisions"];
  less.erase(3);
  CHECK(code("/decisions", less) == "E0909");
  // Where nothing is learned, nothing is decided.
  const Scenario declared = learned({"model.moe_routing=uniform"});
  json of_declared = record;
  of_declared["training"] = training_of(compile(declared));
  CHECK(code_with(of_declared, declared, "/version", 1) != "none");
}

}  // namespace shardsim::test
