#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/kernel/error.hpp"

#include "sim/command/cli.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/mutants/wrong_numbers.hpp"

// Scripts rely on exit codes: what ends with which, and what is then printed where.
namespace shardsim::test {
namespace {

using nlohmann::json;

const std::string kVerify = "scenarios/verify-mlp-ddp.json";

Printed expecting(const std::string& expectations, const std::string& scenario = kPlan) {
  return shardsim({scenario, "--json", "--set", "expect=" + expectations});
}

}  // namespace

TEST_CASE("0: a run whose checks and expectations hold") {
  const Printed printed = expecting(R"([{"metric": "ranks", "op": "==", "value": 64},
                                        {"metric": "mfu", "op": ">", "value": 0.1}])");
  CHECK(printed.exit_code == 0);
  const json result = json::parse(printed.out);
  REQUIRE(result["expectations"].size() == 2);
  CHECK(result["expectations"][0]["passed"] == true);
  CHECK(result["expectations"][0]["actual"] == 64);
}

TEST_CASE("1: an expectation that does not hold, with its value") {
  const Printed printed = expecting(R"([{"metric": "ranks", "op": "<", "value": 64},
                                        {"metric": "ranks", "op": ">=", "value": 64}])");
  CHECK(printed.exit_code == 1);
  const json result = json::parse(printed.out);
  CHECK(result["expectations"][0]["passed"] == false);
  CHECK(result["expectations"][0]["actual"] == 64);
  CHECK(result["expectations"][1]["passed"] == true);

  const Printed text =
      shardsim({kPlan, "--set", R"(expect=[{"metric": "mfu", "op": ">", "value": 0.99}])"});
  CHECK(text.exit_code == 1);
  CHECK(contains(text.out, "mfu > 0.99"));
  CHECK(contains(text.out, "FAILED: 1 expectation"));
}

TEST_CASE("1: a model that is not trained right, in text and JSON") {
  RunArguments arguments;
  arguments.file = kVerify;
  const RunHooks hooks{.wrap_world = plant(double_averaging())};
  const Printed text = shardsim_with(arguments, hooks);
  CHECK(text.exit_code == 1);
  CHECK(contains(text.out, "is 0.125 times that"));
  CHECK(contains(text.out, "FAILED"));
  arguments.json = true;
  const Printed printed = shardsim_with(arguments, hooks);
  CHECK(printed.exit_code == 1);
  const json result = json::parse(printed.out);
  CHECK(result["metrics"]["oracle.passed"] == false);
  CHECK(result["metrics"]["oracle.max_rel_error.grads"] > 0.5);
}

TEST_CASE("every comparison of expectations is judged both ways") {
  const struct {
    const char* op;
    bool below, same, above;  // Whether 64 OP 63, 64 OP 64, 64 OP 65 hold.
  } rows[] = {{"<", false, false, true}, {"<=", false, true, true},  {">", true, false, false},
              {">=", true, true, false}, {"==", false, true, false}, {"!=", true, false, true}};
  for (const auto& row : rows) {
    const auto holds = [&](int value) {
      return expecting(R"([{"metric": "ranks", "op": ")" + std::string(row.op) + R"(", "value": )" +
                       std::to_string(value) + "}]")
                 .exit_code == 0;
    };
    INFO(row.op);
    CHECK(holds(63) == row.below);
    CHECK(holds(64) == row.same);
    CHECK(holds(65) == row.above);
  }
}

TEST_CASE("1: an expectation of a metric that this run does not have fails and has no number") {
  const std::string price = R"(expect=[{"metric": "cost.usd", "op": "<=", "value": 1}])";
  const Printed text = shardsim({kPlan, "--set", price});
  CHECK(text.exit_code == 1);
  CHECK(contains(text.out, "cost.usd <= 1: this run has no such metric"));
  const Printed machine = shardsim({kPlan, "--set", price, "--json"});
  CHECK(json::parse(machine.out)["expectations"][0]["actual"].is_null());
  const Printed annotated = shardsim({kPlan, "--set", price, "--output-format=github", "-q"});
  CHECK(contains(annotated.out, "title=expect::cost.usd <= 1: this run has no such metric"));
}

TEST_CASE("2: expectations of what no run has are refused before it") {
  const Printed unknown = expecting(R"([{"metric": "mfuu", "op": ">", "value": 0}])");
  CHECK(unknown.exit_code == 2);
  CHECK(contains(unknown.out, "E0111"));
  CHECK(contains(unknown.out, "mfu"));
  const Printed oracle = expecting(R"([{"metric": "oracle.passed", "op": "==", "value": 1}])");
  CHECK(oracle.exit_code == 2);
  CHECK(contains(oracle.out, "E0112"));
}

TEST_CASE("3: a model that does not fit, with the numbers and the next command") {
  const Printed printed = shardsim({kPlan, "--set", "parallelism.zero_stage=0"});
  CHECK(printed.exit_code == 3);
  CHECK(contains(printed.out, "DOES NOT FIT"));
  CHECK(contains(printed.out, " GiB of device memory at its peak; the device has 79.6 GiB"));
  CHECK(contains(printed.out, "--set parallelism.zero_stage=3"));
  const Printed machine = shardsim({kPlan, "--json", "--set", "parallelism.zero_stage=0"});
  CHECK(machine.exit_code == 3);
  const json result = json::parse(machine.out);
  CHECK(result["metrics"]["memory.peak_bytes.max"] > 85520809984);
}

TEST_CASE("3: more ranks than can run") {
  const Printed printed =
      shardsim({kPlan, "--set", "system.nodes=16385", "--set", "system.gpus_per_node=1", "--set",
                "training.num_microbatches=1", "--set", "training.global_batch_size=16385", "--set",
                "execution.engine=run"});
  CHECK(printed.exit_code == 3);
  CHECK(contains(printed.err, "16385 ranks; at most 16384"));
  CHECK(printed.out.empty());
}

TEST_CASE("5 and 70: a backend that fails and a bug end the run, with the rank they befell") {
  RunArguments arguments;
  arguments.file = kPlan;
  const auto failing = [&](const auto& failure) {
    const RunHooks hooks{.wrap_world = [&](Communicator& world) -> std::unique_ptr<Communicator> {
      if (world.rank() == 3) throw failure;
      return plant({})(world);
    }};
    try {
      static_cast<void>(shardsim_with(arguments, hooks));
    } catch (const Error& error) {
      std::ostringstream out;
      std::ostringstream err;
      const int exit_code = report(error, ErrorForm::text, out, err);
      CHECK(out.str().empty());
      return Printed{exit_code, out.str(), err.str()};
    }
    return Printed{};
  };
  const Printed backend = failing(Error(ExitCode::backend_failed, "E0000", "the network is gone"));
  CHECK(backend.exit_code == 5);
  CHECK(contains(backend.err, "the network is gone"));
  CHECK(contains(backend.err, "rank 3"));
  const Printed bug = failing(std::logic_error("this cannot happen"));
  CHECK(bug.exit_code == 70);
  CHECK(contains(bug.err, "error[E7001]"));
  CHECK(contains(bug.err, "this cannot happen"));
  CHECK(contains(bug.err, "rank 3"));
}

TEST_CASE("quiet prints nothing unless something is wrong") {
  const Printed well = shardsim({"-q", kPlan});
  CHECK(well.exit_code == 0);
  CHECK(well.out.empty());
  CHECK(well.err.empty());
  const Printed failed =
      shardsim({"-q", kPlan, "--set", R"(expect=[{"metric": "mfu", "op": ">", "value": 1}])"});
  CHECK(failed.exit_code == 1);
  CHECK(contains(failed.out, "mfu"));
}

}  // namespace shardsim::test
