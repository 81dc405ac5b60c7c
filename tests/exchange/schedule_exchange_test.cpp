#include <catch2/catch.hpp>

#include "strategies/pipeline/schedule_csv.hpp"

#include "scenarios/load.hpp"

#include "tests/exchange/exchange_fixture.hpp"

namespace shardsim::test {

namespace {

const std::string kPyTorchCsv = kData + "zb1p_2rank_2stagep_compute.csv";

// Where it came from and what it is called make no difference.
std::vector<std::vector<Action>> actions_of(const std::string& csv) {
  const ScheduleCsv read = parse_schedule_csv(csv, "test");
  REQUIRE(read.problems.empty());
  return read.schedule.actions;
}

}  // namespace

TEST_CASE("PyTorch's schedule goes in, trains, and comes out as it was", "[exchange]") {
  const TemporaryFolder folder;
  const std::string scenario = folder / "imported.json";
  const Printed imported = shardsim({"import", "schedule", kPyTorchCsv, "-o", scenario});
  INFO(imported.err);
  REQUIRE(imported.exit_code == 0);
  const Scenario loaded = load_scenario(scenario);
  CHECK(loaded.parallelism.pp == 2);
  CHECK(loaded.parallelism.vpp == 2);
  CHECK(loaded.training.num_microbatches == 8);
  const Printed exported = shardsim({"export", "schedule", scenario});
  CHECK(exported.exit_code == 0);
  CHECK(actions_of(exported.out) == actions_of(content_of(kPyTorchCsv)));
  // Real numbers, held against an unsharded reference.
  const Printed run = shardsim(
      {"run", scenario, "--set", "execution.tensors=real", "--set", "training.precision=fp64"});
  INFO(run.err << run.out);
  CHECK(run.exit_code == 0);
}

TEST_CASE("Import, export and import again are one schedule", "[exchange]") {
  const TemporaryFolder folder;
  const std::string schedule = GENERATE("1f1b", "interleaved_1f1b", "zb_v", "dualpipe_v");
  CAPTURE(schedule);
  const std::string chunks = schedule == "interleaved_1f1b" ? R"(, "vpp": 2)" : "";
  write(folder / "one.json",
        R"({"schema_version": 1, "name": "one", "model": {"family": "llama", "num_layers": 8,
        "hidden_size": 32, "ffn_hidden_size": 64, "num_attention_heads": 4, "vocab_size": 64,
        "seq_len": 16}, "system": {"preset": "dgx-h100", "nodes": 1, "gpus_per_node": 2},
        "parallelism": {"pp": 2, "schedule": ")" +
            schedule + "\"" + chunks +
            R"(}, "training": {"global_batch_size": 8, "micro_batch_size": 1}})");
  const auto done = [](const std::vector<std::string>& arguments) {
    const Printed printed = shardsim(arguments);
    INFO(printed.err);
    REQUIRE(printed.exit_code == 0);
  };
  done({"export", "schedule", folder / "one.json", "-o", folder / "one.csv"});
  done({"import", "schedule", folder / "one.csv", "-o", folder / "two.json"});
  done({"export", "schedule", folder / "two.json", "-o", folder / "two.csv"});
  CHECK(content_of(folder / "one.csv") == content_of(folder / "two.csv"));
  done({"schedule", folder / "two.json"});
}

TEST_CASE("Schedules that cannot be read or cannot run are refused with their cell", "[exchange]") {
  const TemporaryFolder folder;
  write(folder / "s.csv", "0F0,0B0\n1F0,1X0\n");
  const Printed unread = shardsim({"import", "schedule", folder / "s.csv"});
  CHECK(unread.exit_code == 2);
  CHECK(contains(unread.err, "s.csv:2:5"));
  // As PyTorch wrote it until October 2024.
  write(folder / "s.csv", "0F0,0B0,0W0\n1F0,1B0,1W0\n");
  const Printed old = shardsim({"import", "schedule", folder / "s.csv"});
  CHECK(old.exit_code == 4);
  CHECK(contains(old.err, "0W0 is done already by 0B0"));
  CHECK(contains(old.err, "write I for B"));
}

}  // namespace shardsim::test
