#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "scenarios/load.hpp"
#include "sim/app/decision_file.hpp"
#include "sim/app/run.hpp"

#include "tests/app/command_fixture.hpp"

// Law L3 where values decide: a run without data that replays a record is the run with data.
namespace shardsim::test {
namespace {

using nlohmann::json;

const std::string kSkipping = "scenarios/verify-gpt-tp2-pp2-dp2-fp16.json";

Scenario skipping(const std::vector<std::string>& overrides = {}) {
  return load_scenario(kSkipping, overrides);
}

std::string refusal(const std::string& text, const Scenario& scenario) {
  try {
    static_cast<void>(parse_decisions(text, scenario, "skips.json"));
  } catch (const UsageError& error) {
    return error.code();
  }
  return "none";
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

TEST_CASE("a plan that replays skipped steps has the trace and the metrics of the real run") {
  const RunOutcome real = run_scenario(skipping());
  REQUIRE(real.result.exit_code == 0);
  REQUIRE(real.decisions);
  CHECK(*real.result.number("loss_scaling.skipped_steps") > 0);
  const Scenario meta = skipping({"execution.tensors=meta"});
  const Result replayed = run_scenario(meta, {.replay = &*real.decisions}).result;
  CHECK(replayed.exit_code == 0);
  for (const Metric& metric : replayed.metrics) {
    INFO(metric.name);
    REQUIRE(real.result.find(metric.name) != nullptr);
    CHECK(*real.result.find(metric.name) == metric.value);
  }
  // Without the record no step is skipped, which is what a real run does whose scale fits.
  const Result planned = run_scenario(meta).result;
  CHECK(*planned.number("loss_scaling.skipped_steps") == 0);
  CHECK(*planned.find("trace_hash") != *real.result.find("trace_hash"));
  const Result fitting = run_scenario(skipping({"training.loss_scale=1024",
                                                "training.loss_scale_growth_interval=2000"}))
                             .result;
  CHECK(*fitting.number("loss_scaling.skipped_steps") == 0);
  CHECK(*planned.find("trace_hash") == *fitting.find("trace_hash"));
}

TEST_CASE("a step that is skipped has no norm, no update and no gather") {
  // Never small enough in two steps.
  const std::vector<std::string> never = {"training.loss_scale=1e30", "execution.steps=2"};
  const Result skipped = run_scenario(skipping(never)).result;
  const Result taken =
      run_scenario(skipping({"training.loss_scale=1024", "execution.steps=2"})).result;
  CHECK(skipped.exit_code == 1);  // Nobody can say that it trains the same model.
  CHECK(contains(skipped.checks.back().detail, "all 2 steps were skipped"));
  CHECK(*skipped.number("loss_scaling.skipped_steps") == 2);
  CHECK(*skipped.number("loss_scaling.scale") == 1e30 / 4);
  CHECK(*skipped.number("comm.bytes_sent.total") < *taken.number("comm.bytes_sent.total"));
  CHECK(*skipped.number("comm.bytes_sent.scalars") < *taken.number("comm.bytes_sent.scalars"));
  CHECK(*skipped.number("time.compute_s") < *taken.number("time.compute_s"));
  REQUIRE(skipped.warnings.size() == 1);
  CHECK(contains(skipped.warnings.front(), "the last step was skipped"));
  CHECK(taken.warnings.empty());
}

TEST_CASE("records are files that any plan of the same training replays, on any machine") {
  const Scenario scenario = skipping();
  const RunOutcome real = run_scenario(scenario);
  const std::string text = to_text(*real.decisions, scenario);
  CHECK(parse_decisions(text, scenario, "") == *real.decisions);
  const json file = json::parse(text);
  REQUIRE(file["decisions"].size() == 1);  // All ranks decide alike.
  CHECK(file["decisions"][0]["name"] == "skip step");
  CHECK(file["decisions"][0]["ranks"] == json{0, 7});
  const auto overridden = [&](const std::string& field) {
    return refusal(text, skipping({field}));
  };
  CHECK(overridden("execution.tensors=meta") == "none");
  CHECK(overridden("execution.all_reduce_algorithm=ring") == "none");
  CHECK(overridden("system.device.kernel_launch_us=7") == "none");
  CHECK(overridden("execution.seed=50") == "E0908");
  CHECK(overridden("execution.steps=11") == "E0908");
  CHECK(overridden("execution.reduction_order=ring") == "E0908");
  CHECK(overridden("training.loss_scale=1024") == "E0908");
  CHECK(overridden("model.seq_len=12") == "E0908");
  CHECK(overridden("parallelism.zero_stage=2") == "E0908");
  const auto changed = [&](const char* pointer, const json& value) {
    json other = file;
    other[json::json_pointer(pointer)] = value;
    return refusal(other.dump(), scenario);
  };
  CHECK(changed("/ranks", 4) == "E0908");
  CHECK(changed("/format", "x") == "E0909");
  CHECK(changed("/version", 2) == "E0909");
  CHECK(changed("/decisions/0/answers", "012") == "E0909");
  CHECK(changed("/decisions/0/answers", "01010101010") == "E0909");  // In 10 steps.
  CHECK(changed("/decisions/0/ranks", json{0, 8}) == "E0909");
  CHECK(changed("/decisions/0/ranks", json{-1, 7}) == "E0909");
  CHECK(changed("/decisions/0/ranks", json{5, 2}) == "E0909");
  CHECK(changed("/decisions/0/name", 3) == "E0909");
  CHECK(changed("/decisions/1", file["decisions"][0]) == "E0909");
  CHECK(refusal("{", scenario) == "E0909");
  CHECK(refusal("[]", scenario) == "E0909");
  CHECK(refusal("", scenario) == "E0909");
}

TEST_CASE("the command writes a record and replays it, and refuses what means nothing") {
  const TemporaryFolder folder;
  const std::string record = folder / "skips.json";
  const Printed real = shardsim({kSkipping, "--json", "-q", "--record-decisions", record});
  CHECK(real.exit_code == 0);
  CHECK(files_in(folder) == std::vector<std::string>{"skips.json"});
  const std::vector<std::string> meta = {kSkipping, "--json", "--set", "execution.tensors=meta"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> all = meta;
    all.insert(all.end(), more.begin(), more.end());
    return shardsim(all);
  };
  const Printed replayed = with({"--replay-decisions", record});
  CHECK(replayed.exit_code == 0);
  CHECK(json::parse(replayed.out)["metrics"]["trace_hash"] ==
        json::parse(real.out)["metrics"]["trace_hash"]);
  CHECK(json::parse(with({}).out)["metrics"]["trace_hash"] !=
        json::parse(real.out)["metrics"]["trace_hash"]);

  const auto code = [](const Printed& printed) {
    CHECK(printed.exit_code == 2);
    return json::parse(printed.out)[0]["code"];
  };
  CHECK(code(shardsim({kSkipping, "--json", "--replay-decisions", record})) == "E0907");
  CHECK(code(with({"--record-decisions", record})) == "E0907");
  CHECK(code(with({"--set", "execution.seed=1", "--replay-decisions", record})) == "E0908");
  CHECK(code(with({"--replay-decisions", kSkipping})) == "E0909");
  CHECK(code(with({"--replay-decisions", "nowhere.json"})) == "E0001");
  // As many answers as steps: a record of fewer is found when the run asks for one more.
  json shorter = json::parse(content_of(record));
  shorter["decisions"][0]["answers"] = "1";
  write(record, shorter.dump());
  CHECK(code(with({"--replay-decisions", record})) == "E0506");
}

}  // namespace shardsim::test
