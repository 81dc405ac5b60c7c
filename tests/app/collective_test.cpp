#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/collective/collective_run.hpp"
#include "sim/command/cli.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/approved_file.hpp"
#include "tests/mutants/faulty_communicator.hpp"

// `shardsim collective` in simulated time: its table, its formulas, and that it sees what is wrong.
// On processes: collective_process_test.py.
namespace shardsim::test {
namespace {

using nlohmann::json;

struct Bus {
  const char* operation;
  double at_2;
  double at_8;
};

std::vector<std::string> collective(std::vector<std::string> words) {
  words.insert(words.begin(), "collective");
  return words;
}

json object_of(std::vector<std::string> words) {
  words.emplace_back("--json");
  const Printed printed = shardsim(collective(std::move(words)));
  INFO(printed.err << printed.out);
  CHECK(printed.exit_code == 0);
  return json::parse(printed.out);
}

}  // namespace

TEST_CASE("the table is that of nccl-tests with our columns after it") {
  const Printed all = shardsim({"collective", "all_reduce", "-b", "8", "-e", "64M", "-f", "64"});
  REQUIRE(all.exit_code == 0);
  require_approved_file("tests/golden/collective-all-reduce.txt", all.out);
  const Printed chunks =
      shardsim({"collective", "reduce_scatter", "-b", "1K", "-e", "4K", "-i", "1K", "-d", "half",
                "-o", "max", "--ranks", "16", "--system", "dgx-a100", "-c", "0"});
  REQUIRE(chunks.exit_code == 0);
  require_approved_file("tests/golden/collective-reduce-scatter.txt", chunks.out);
}

TEST_CASE("bus bandwidth is algorithm bandwidth times the factor of nccl-tests") {
  const Bus factors[] = {
      {"all_reduce", 1.0, 2.0 * 7 / 8},
      {"reduce_scatter", 0.5, 7.0 / 8},
      {"all_gather", 0.5, 7.0 / 8},
      {"broadcast", 1.0, 1.0},
      {"reduce", 1.0, 1.0},
      {"all_to_all", 0.5, 7.0 / 8},
      {"sendrecv", 1.0, 1.0},
      {"gather", 0.5, 7.0 / 8},
      {"scatter", 0.5, 7.0 / 8},
  };
  for (const Bus& bus : factors) {
    INFO(bus.operation);
    CHECK(bus_factor(tested_operation_of(bus.operation), 2) == bus.at_2);
    CHECK(bus_factor(tested_operation_of(bus.operation), 8) == bus.at_8);
    const json run = object_of({bus.operation, "-b", "1M", "-e", "1M", "-c", "0"});
    const json& row = run["rows"][0];
    for (const char* place : {"out_of_place", "in_place"}) {
      if (row[place].is_null()) continue;
      const double algbw = 1048576 / 1e3 / row[place]["time_us"].get<double>();
      CHECK(row[place]["algbw_gb_per_s"].get<double>() == Approx(algbw).epsilon(1e-12));
      CHECK(row[place]["busbw_gb_per_s"].get<double>() == Approx(algbw * bus.at_8).epsilon(1e-12));
    }
  }
}

TEST_CASE("every operation is right to the last bit in every type, at sizes that leave a rest") {
  for (const std::string& operation : tested_operation_names()) {
    for (const char* dtype : {"int8", "int32", "int64", "half", "float", "double", "bfloat16"}) {
      for (const char* reduction : {"sum", "prod", "min", "max", "avg"}) {
        INFO(operation << " " << dtype << " " << reduction);
        const json run = object_of({operation, "-b", "0", "-e", "60000", "-i", "29999", "-n", "1",
                                    "-d", dtype, "-o", reduction, "--ranks", "5", "-r", "3"});
        CHECK(run["wrong_elements"] == 0);
        CHECK(run["rows"].size() == 3);
        if (!reduces(tested_operation_of(operation))) break;
      }
    }
  }
  // More ranks than a type has integers.
  for (const char* dtype : {"int8", "bfloat16"}) {
    const json run = object_of({"all_reduce", "-b", "8K", "-e", "8K", "-n", "1", "-d", dtype,
                                "--ranks", "320", "--system", "dgx-h100"});
    CHECK(run["wrong_elements"] == 0);
  }
}

TEST_CASE("one planted wrong element is counted on the rank that has it") {
  const std::vector<const char*> words = {
      "shardsim", "collective", "all_reduce", "-b", "64K", "-e", "64K", "-n", "1", "--ranks", "4"};
  Faults faults;
  faults.all_reduce = [](const Caller& caller, const Tensor& buffer, ReduceOp op,
                         const CallOptions& options, CallSite site) {
    // Rank 2 brings one element that nobody else expects: all four have it wrong in the end.
    if (caller.world_rank == 2 && buffer.has_data()) buffer.set(7777, buffer.get(7777) + 1);
    return caller.to.all_reduce(buffer, op, options, site);
  };
  RunHooks hooks;
  hooks.wrap_world = plant(faults);
  std::ostringstream out;
  std::ostringstream err;
  CHECK(run_command(static_cast<int>(words.size()), words.data(), out, err, false, hooks) == 1);
  CHECK(contains(out.str(), "Out of bounds values : 4 FAILED"));
}

TEST_CASE("values that stayed where they were, or moved by a power of two, are wrong") {
  const TestValues values(DType::fp32, ReduceOp::sum, true, 8);
  const Tensor buffer =
      Tensor::allocate(nullptr, MemoryCategory::comm, {1 << 16}, DType::fp32, false);
  values.fill(buffer, 3, 0);
  CHECK(values.count_wrong(buffer, 3, 0) == 0);
  CHECK(values.count_wrong(buffer, 2, 0) > 60000);
  CHECK(values.count_wrong(buffer, TestValues::kAll, 0) > 60000);
  for (std::int64_t moved = 1; moved <= 1 << 20; moved *= 2) {
    CHECK(values.count_wrong(buffer, 3, moved) > 60000);
  }
}

TEST_CASE("sizes are read as nccl-tests reads them") {
  const json run = object_of({"broadcast", "-b", "1.5K", "-e", "6k", "-f", "2", "-c", "0"});
  CHECK(run["rows"][0]["size_bytes"] == 1536);
  CHECK(run["rows"][2]["size_bytes"] == 6144);
  CHECK(run["rows"].size() == 3);
  // Chunks are whole multiples of 16 bytes.
  const json chunks = object_of({"all_gather", "-b", "1000", "-e", "1000", "-c", "0"});
  CHECK(chunks["rows"][0]["count"] == 28);
  CHECK(chunks["rows"][0]["size_bytes"] == 896);
}

TEST_CASE("every mistake in a collective's words is named with its way out") {
  const Mistake mistakes[] = {
      {{}, "no operation is given", "all_reduce"},
      {{"all_reduc"}, "no operation \"all_reduc\"", "write \"all_reduce\""},
      {{"all_reduce", "-b", "8X"}, "\"8X\" is no size for -b", "powers of 1024"},
      {{"all_reduce", "-e", "64Mi"}, "\"64Mi\" is no size for -e", "256M"},
      {{"all_reduce", "-b", "-8"}, "\"-8\" is no size", "whole bytes"},
      {{"all_reduce", "-e", "1.3"}, "\"1.3\" is no size", "whole bytes"},
      {{"all_reduce", "-b", "2M", "-e", "1M"}, "-b 2097152 is more than -e 1048576", "smaller"},
      {{"all_reduce", "-b", "64M"}, "is more than -e", "the default of each is 32M"},
      {{"all_reduce", "-f", "1"}, "sizes times 1 never grow", "2 or more"},
      {{"all_reduce", "-b", "0", "-f", "2"}, "0 bytes times", "start at 1"},
      {{"all_reduce", "-i", "0"}, "plus 0 never grow", "-f"},
      {{"all_reduce", "-f", "2", "-i", "8"}, "by a factor (-f) and by a step", "one of them"},
      {{"all_reduce", "-b", "0", "-i", "8"}, "more than 10000 sizes", "larger step"},
      {{"all_reduce", "-d", "flot"}, "no datatype \"flot\"", "write \"float\""},
      {{"all_reduce", "-o", "summ"}, "no reduction \"summ\"", "write \"sum\""},
      {{"all_reduce", "-d", "f8e4m3"}, "no datatype \"f8e4m3\"", "bfloat16"},
      {{"all_reduce", "--system", "dgx-h10"}, "no system \"dgx-h10\"", "write \"dgx-h100\""},
      {{"all_reduce", "--ranks", "9"}, "9 ranks do not lie evenly on 2 nodes", "--nodes"},
      {{"broadcast", "-r", "8"}, "rank 8 of 8 cannot be the root", "0 to 7"},
      {{"all_reduce", "--ranks", "0"}, "--ranks", "collective --help"},
      {{"all_reduce", "--itres", "3"}, "\"--itres\" is not an option", "write \"--iters\""},
  };
  for (const Mistake& mistake : mistakes) {
    const Printed printed = shardsim(collective(mistake.arguments));
    INFO(printed.err);
    CHECK(printed.exit_code == 2);
    CHECK(printed.out.empty());
    CHECK(contains(printed.err, mistake.said));
    CHECK(contains(printed.err, mistake.way_out));
  }
  const Printed large =
      shardsim({"collective", "all_reduce", "-b", "100000G", "-e", "100000G", "--ranks", "8"});
  CHECK(large.exit_code == 3);
  CHECK(contains(large.err, "-c 0"));
}

}  // namespace shardsim::test
