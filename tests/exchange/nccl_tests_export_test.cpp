#include <catch2/catch.hpp>

#include "tests/exchange/exchange_fixture.hpp"

namespace shardsim::test {

TEST_CASE("Exported tables are what calibrate reads", "[exchange]") {
  const TemporaryFolder folder;
  // Messages large enough that bandwidth counts.
  write(folder / "run.json", R"({"schema_version": 1, "name": "run", "model": {"preset":
    "llama3-8b", "seq_len": 1024, "num_layers": 2}, "system": {"preset": "dgx-h100", "nodes": 2,
    "network_model": "nccl"}, "parallelism": {"tp": 8, "sequence_parallel": true, "zero_stage": 1},
    "training": {"global_batch_size": 4, "micro_batch_size": 1}})");
  const Printed printed =
      shardsim({"export", "nccl-tests", folder / "run.json", "-o", folder / "tables.txt", "-q"});
  INFO(printed.err);
  REQUIRE(printed.exit_code == 0);
  const std::string tables = content_of(folder / "tables.txt");
  CHECK(contains(tables, "# shardsim collective all_gather on fiber: 8 ranks"));
  CHECK(contains(tables, "# shardsim collective reduce_scatter on fiber: 2 ranks"));
  CHECK(contains(tables, ": 2 nodes of 1 GPUs"));  // Data parallelism is between nodes.
  // 1,024 tokens of 4,096 elements of 2 bytes.
  CHECK(contains(tables, "     8388608"));
  const Printed swept = shardsim(
      {"export", "nccl-tests", folder / "run.json", "-o", folder / "sweep.txt", "--sweep", "-q"});
  REQUIRE(swept.exit_code == 0);
  const Printed calibrated =
      shardsim({"calibrate", folder / "sweep.txt", "--system", folder / "run.json"});
  INFO(calibrated.err << calibrated.out);
  CHECK(calibrated.exit_code == 0);
  CHECK(contains(calibrated.out, "all_gather      8 ranks on 1 node"));
  // Its own prices need no correction.
  CHECK(contains(calibrated.out, " 1.0000"));
}

TEST_CASE("Kinds and runs that cannot be exported are refused", "[exchange]") {
  const TemporaryFolder folder;
  write(folder / "small.json", kSmall);
  const Printed kind = shardsim({"export", "otf2", folder / "small.json"});
  CHECK(kind.exit_code == 2);
  CHECK(contains(kind.err, "\"otf2\""));
  CHECK(contains(kind.err, "\"chakra\""));
  const Printed many = shardsim({"export", "kineto", folder / "small.json", "--set",
                                 "system.nodes=512", "--set", "training.global_batch_size=512"});
  CHECK(many.exit_code == 3);
  CHECK(contains(many.err, "4096 ranks; traces are written for at most 2048"));
}

}  // namespace shardsim::test
