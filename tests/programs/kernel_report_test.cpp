#include "sim/programs/kernel_report.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/hardware/software.hpp"

#include "sim/programs/program_replay.hpp"
#include "sim/programs/program_set.hpp"
#include "tests/app/command_fixture.hpp"
#include "tests/backends/fiber_fixture.hpp"
#include "tests/programs/programs_fixture.hpp"
#include "tests/temporary_folder.hpp"

// The computing of a rank: each of the tables adds up to all of it.
namespace shardsim::test {
namespace {

// Two layers on two streams. The first step is another one than the last.
constexpr const char* kKernelsFile = R"({"shardsim_program": 1, "name": "kernels", "ranks": 2}
{"operation": {"name": "mm", "kind": "matmul", "dtype": "bf16", "flops": 2147483648, "bytes": 6291456, "family": "matrix_product", "shape": [1024, 1024, 1024, 1]}}
{"operation": {"name": "mul", "kind": "memory_bound", "dtype": "bf16", "flops": 0, "bytes": 6291457}}
{"operation": {"name": "copy", "kind": "host_transfer", "dtype": "int8", "flops": 0, "bytes": 1000003}}
{"operation": {"name": "copy", "kind": "memory_bound", "dtype": "int8", "flops": 0, "bytes": 1000003}}
{"operation": {"name": "einsum", "kind": "matmul", "dtype": "bf16", "flops": 1000000, "bytes": 1000}}
{"hole": {"name": "unknown", "device_ps": 5000001}}
{"call": {"group": 0, "kind": "all_reduce", "dtype": "fp32", "count": 10000000, "reduction": "sum"}}
{"mark": {"kind": "step_begins", "step": 0}}
{"mark": {"kind": "step_ends", "step": 0}}
{"mark": {"kind": "step_begins", "step": 1}}
{"mark": {"kind": "step_ends", "step": 1}}
{"place": {"module": "layers.0.mlp", "phase": "forward"}}
{"place": {"module": "layers.1.mlp", "phase": "forward"}}
{"place": {"module": "layers.1.mlp", "phase": "backward"}}
{"place": {"module": "layers.1", "phase": "recomputation"}}
{"place": {"phase": "optimizer"}}
{"program": {"rank": 0, "ranks": [[0, 2]]}}
{"steps": "m0 c0 c0:0 h0 m1 c1 m2 c0:0 c1:0 p0:0 c0:1 c1:1 c0:2 c1:2 c1:3 c2 c3 c4 h0:3 w0 u1 c1:2 c0 u0 c1:4 m3 c1"}
)";

constexpr const char* kPlainFile = R"({"shardsim_program": 1, "name": "plain", "ranks": 1}
{"operation": {"name": "mul", "kind": "memory_bound", "dtype": "bf16", "flops": 0, "bytes": 6291457}}
{"program": {"rank": 0, "ranks": [[0, 1]]}}
{"steps": "c0 c0"}
)";

struct Reported {
  ProgramReplay replay;
  KernelReport kernels;
};

Reported reported(const char* file, double slowdown, double hole_factor = 1.0,
                  const char* software = "none") {
  const ProgramSet set = read_program_file(file, "kernels.jsonl");
  ProgramReplayOptions options{.cluster =
                                   test_cluster(static_cast<int>(set.programs.of_rank.size()))};
  options.cluster.device.slowdown_beside_collectives = slowdown;
  options.cluster.device.host_bytes_per_s = 3e10;
  options.cluster.device.software = find_software(software);
  options.hole_factor = hole_factor;
  const ProgramReplay replay = replay_programs_on(set, options);
  return {replay, kernels_of(set, options, replay)};
}

template <class Row, class Sum>
KernelTime total(const std::vector<Row>& rows, const Sum& sum_of) {
  KernelTime all;
  for (const Row& row : rows) {
    all.add(sum_of(row));
  }
  return all;
}

void check_sums(const Reported& found) {
  const KernelReport& report = found.kernels;
  const auto sum = [](const auto& row) { return row.sum; };
  for (const KernelTime& all : {total(report.operators, sum), total(report.modules, sum),
                                total(report.streams, [](const KernelTime& row) { return row; })}) {
    CHECK(all.kernels == report.all.kernels);
    CHECK(all.bytes == report.all.bytes);
    CHECK(all.time.picoseconds() == report.all.time.picoseconds());
  }
  CHECK((report.streams.front().time + report.slower).picoseconds() ==
        found.replay.split.compute.picoseconds());
}

}  // namespace

TEST_CASE("kernels of the last step add up to what the rank computes, to the picosecond") {
  const Reported alone = reported(kKernelsFile, 0.0);
  check_sums(alone);
  CHECK(alone.replay.has_steps);
  CHECK(alone.kernels.all.kernels == 14);
  CHECK(alone.kernels.streams.at(1).kernels == 2);
  CHECK(alone.kernels.slower == Time());
  const Reported beside = reported(kKernelsFile, 0.25);
  check_sums(beside);
  CHECK(beside.kernels.all.time == alone.kernels.all.time);
  CHECK(beside.kernels.slower > Time());
}

TEST_CASE("kernels of a program without steps are all of its kernels") {
  const Reported found = reported(kPlainFile, 0.0);
  check_sums(found);
  CHECK_FALSE(found.replay.has_steps);
  CHECK(found.kernels.all.kernels == 2);
  CHECK_FALSE(found.kernels.knows_modules());
  CHECK_FALSE(contains(kernels_text(found.kernels), "module"));
}

TEST_CASE("kernels tell what their prices were made of") {
  const KernelReport report = reported(kKernelsFile, 0.0).kernels;
  const auto row = [&](const std::string& name, KernelPrice price) {
    for (const KernelsOfOperator& each : report.operators) {
      if (each.name == name && each.price == price) return each.sum;
    }
    return KernelTime{-1, -1, {}};
  };
  CHECK(report.operators.size() == 6);
  CHECK(row("mm", KernelPrice::family).kernels == 4);
  CHECK(row("mul", KernelPrice::bytes).kernels == 6);
  CHECK(row("copy", KernelPrice::host_link).kernels == 1);
  CHECK(row("copy", KernelPrice::bytes).kernels == 1);
  CHECK(row("einsum", KernelPrice::flops).kernels == 1);
  CHECK(row("unknown", KernelPrice::recorded).time.picoseconds() == 5'000'001);
  CHECK(report.by_bytes ==
        row("mul", KernelPrice::bytes).time + row("copy", KernelPrice::bytes).time);
  const KernelReport half = reported(kKernelsFile, 0.0, 0.5).kernels;
  CHECK((report.all.time - half.all.time).picoseconds() == 2'500'000);
}

TEST_CASE("kernels and their bytes are those that the software makes of an operation") {
  constexpr const char* kNorm = R"({"shardsim_program": 1, "name": "norm", "ranks": 1}
{"operation": {"name": "norm", "kind": "memory_bound", "dtype": "bf16", "flops": 0, "bytes": 4000, "family": "norm", "shape": [0, 0, 0, 0]}}
{"operation": {"name": "dw", "kind": "matmul", "dtype": "bf16", "flops": 1000000, "bytes": 1000, "family": "weight_gradient", "shape": [64, 64, 64, 1]}}
{"program": {"rank": 0, "ranks": [[0, 1]]}}
{"steps": "c0 c1 c0"}
)";
  const KernelTime ideal = reported(kNorm, 0.0).kernels.all;
  CHECK(ideal.kernels == 3);
  CHECK(ideal.bytes == 8000);  // A product is not priced by its bytes.
  const KernelTime eager = reported(kNorm, 0.0, 1.0, "deepspeed-2024").kernels.all;
  CHECK(eager.kernels == 8 + 2 + 8);
  CHECK(eager.bytes == 2 * 36'000);
}

TEST_CASE("layers of one kind are one row of a report") {
  CHECK(folded("layers.17.mlp.0") == "layers.*.mlp.*");
  CHECK(folded("h2.norm") == "h2.norm");
  CHECK(folded("") == "");
  const KernelReport report = reported(kKernelsFile, 0.0).kernels;
  const std::vector<KernelsOfLayers> rows = layers_of(report);
  CHECK(rows.size() == 5);
  CHECK(total(rows, [](const KernelsOfLayers& row) { return row.sum; }).time == report.all.time);
  const auto forward = std::ranges::find_if(rows, [](const KernelsOfLayers& row) {
    return row.path == "layers.*.mlp" && row.phase == ProgramPlace::Phase::forward;
  });
  REQUIRE(forward != rows.end());
  CHECK(forward->modules == 2);
  CHECK(forward->sum.kernels == 4);
}

TEST_CASE("what the table of modules leaves out is one row of it") {
  std::string places;
  std::string steps;
  for (int i = 0; i < 14; ++i) {
    places += R"({"place": {"module": "part)" + std::to_string(i) + R"("}})" + "\n";
    steps += "c0:" + std::to_string(i) + " ";
  }
  std::string text = kPlainFile;
  text.insert(text.find("{\"program\""), places);
  text.replace(text.find("c0 c0"), 5, steps + "c0 c0");
  const std::string shown = kernels_text(reported(text.c_str(), 0.0).kernels);
  INFO(shown);
  const auto share_in = [&](const std::string& row) {
    const std::size_t at = shown.find("\n  " + row + " ");
    if (at == std::string::npos) return std::string("none");
    const std::size_t end = shown.find(" %", at);
    return shown.substr(end - 4, 4);
  };
  CHECK(share_in("part0") == " 6.2");  // One of sixteen.
  CHECK(share_in("other modules") == "12.5");
  CHECK(share_in("in no module") == "12.5");
}

TEST_CASE("the command shows the kernels, and modules with their parts") {
  const TemporaryFolder folder;
  write(folder / "kernels.program.jsonl", kKernelsFile);
  const Printed text = shardsim({"replay", folder / "kernels.program.jsonl", "-q"});
  INFO(text.err << text.out);
  REQUIRE(text.exit_code == 0);
  CHECK(contains(text.out, "kernels of rank 0: 14 in "));
  CHECK(contains(text.out, "  mul (bytes) "));
  CHECK(contains(text.out, "  layers.* (2) "));
  CHECK(contains(text.out, "    mlp (2) "));
  CHECK(contains(text.out, "  optimizer "));
  CHECK(contains(text.out, "computing by stream: 0: "));
  const Printed json = shardsim({"replay", folder / "kernels.program.jsonl", "-q", "--json"});
  const nlohmann::json found = nlohmann::json::parse(json.out);
  const nlohmann::json& modules = found["kernels"]["modules"];
  CHECK(modules.size() == 5);
  for (const char* rows : {"operators", "modules", "streams"}) {
    for (const char* key : {"time_ps", "kernels", "moved_bytes"}) {
      std::int64_t sum = 0;
      for (const nlohmann::json& row : found["kernels"][rows]) sum += row[key].get<std::int64_t>();
      CHECK(sum == found["kernels"][key]);
    }
  }
  // Six products of elements and a copy; neither products of matrices nor copies to the host.
  CHECK(found["kernels"]["moved_bytes"] == 6 * 6'291'457 + 1'000'003);
  CHECK(found["kernels"]["streams"][0]["time_ps"].get<std::int64_t>() +
            found["kernels"]["slower_ps"].get<std::int64_t>() ==
        found["compute_ps"]);
}

}  // namespace shardsim::test
