#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/run/run.hpp"

#include "tests/app/command_fixture.hpp"

// Law L3 where values decide: a run without data that replays a record is the run with data.
namespace shardsim::test {
namespace {

using nlohmann::json;

}  // namespace

TEST_CASE("a plan that replays skipped steps has the trace and the metrics of the real run") {
  const RunOutcome real = run_scenario(skipping({kLargeDevice}));
  REQUIRE(real.result.exit_code == 0);
  REQUIRE(real.decisions);
  CHECK(*real.result.number("loss_scaling.skipped_steps") > 0);
  const Scenario meta = skipping({"execution.tensors=meta", kLargeDevice});
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

TEST_CASE("the command writes a record and replays it, and refuses what means nothing") {
  const TemporaryFolder folder;
  const std::string record = folder / "skips.json";
  const Printed real = shardsim({kSkipping, "--json", "-q", "--record-decisions", record});
  CHECK(real.exit_code == 0);
  CHECK(files_in(folder) == std::vector<std::string>{"skips.json"});
  const std::vector<std::string> meta = {kSkipping, "--json",    "--set", "execution.tensors=meta",
                                         "--set",   kLargeDevice};
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
    return json::parse(printed.out)["errors"][0]["code"];
  };
  CHECK(code(shardsim({kSkipping, "--json", "--replay-decisions", record})) == "E0907");
  CHECK(code(with({"--record-decisions", record})) == "E0907");
  CHECK(code(with({"--set", "execution.seed=1", "--replay-decisions", record})) == "E0908");
  CHECK(code(with({"--replay-decisions", kSkipping})) == "E0909");
  CHECK(code(with({"--replay-decisions", "nowhere.json"})) == "E0001");
  // Another place than the whole file is named, too.
  json shorter = json::parse(content_of(record));
  shorter["decisions"][0]["answers"] = "1";
  write(record, shorter.dump(1));
  const Printed text =
      shardsim({kSkipping, "--set", "execution.tensors=meta", "--replay-decisions", record});
  CHECK(text.exit_code == 2);
  CHECK(contains(text.err, "error[E0909]"));
  CHECK(contains(text.err, record + ":4:"));
}

}  // namespace shardsim::test
