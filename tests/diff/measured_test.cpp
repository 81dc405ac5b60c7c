#include <cstdint>
#include <fstream>
#include <sstream>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/kernel/random.hpp"

#include "sim/diff/run_side.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/diff/diff_fixture.hpp"

// Logs and traces of real runs, in the formats of Megatron-LM and of PyTorch's profiler.
namespace shardsim::test {

namespace {

constexpr std::int64_t kMicrosecond = 1'000'000;  // In picoseconds.

std::int64_t part_of(const RunSide& side, const std::string& name) {
  for (const Part& part : side.time) {
    if (part.name == name) return part.amount;
  }
  return -1;
}

std::optional<RunSide> log_of(const std::string& text) {
  std::istringstream lines(text);
  return read_megatron_log(lines);
}

JsonOutline outline_of(const std::string& text) {
  std::istringstream stream(text);
  return outline_json(stream);
}

std::string iteration(double ms) {
  return fmt::format(
      " iteration {:8d}/{:8d} | consumed samples: {:12d} | elapsed time per iteration (ms): {:.1f} "
      "| learning rate: {:.6E} | global batch size: {:5d} |\n",
      1, 100, 128, ms, 1e-4, 128);
}

}  // namespace

TEST_CASE("a Megatron-LM log tells the median iteration and the largest memory", "[diff]") {
  std::ifstream file(kLog);
  const std::optional<RunSide> side = read_megatron_log(file);
  REQUIRE(side.has_value());
  // 1702, 1698, 1700, 3950.5 and 1699 ms: two iterations of warm-up are left out.
  CHECK(side->step_ps == 1'700'000 * kMicrosecond);
  CHECK(side->metrics.at("model_tflops_per_gpu") == 487.7);
  // Two reports on one line, as ranks write them.
  CHECK(side->metrics.at("memory.allocated_peak_bytes.max") == 51201.75 * 1048576.0);
  CHECK(side->metrics.at("memory.reserved_peak_bytes.max") == 53250.0 * 1048576.0);
  CHECK(side->fields.at("training.global_batch_size") == "128");
  CHECK(side->what == "Megatron-LM log, median of 5 of 7 reported iterations");
  CHECK(side->time.empty());
}

TEST_CASE("a log's arguments are its fields, and its last run counts", "[diff]") {
  const auto arguments = [](const std::string& rows) {
    return "--- arguments ---\n" + rows + "--- end of arguments ---\n";
  };
  const std::string first =
      arguments("0:   num_layers ...... 2\n  num_experts ..... None\n") + iteration(10.0);
  CHECK(log_of(first)->fields.at("model.num_layers") == "2");
  CHECK(log_of(first)->fields.count("model.num_experts") == 0);
  // Written of every run, it is a degree of those with experts.
  const std::string slices = "  expert_tensor_parallel_size ...... 4\n";
  CHECK(log_of(arguments("  num_experts ..... None\n" + slices) + iteration(10.0))
            ->fields.count("parallelism.etp") == 0);
  CHECK(log_of(arguments("  num_experts ..... 8\n" + slices) + iteration(10.0))
            ->fields.at("parallelism.etp") == "4");
  const std::string second = arguments("  num_layers ...... 4\n  world_size ...... 16\n");
  const RunSide side = *log_of(first + second + iteration(30.0));
  CHECK(side.step_ps == 30'000 * kMicrosecond);
  CHECK(side.fields.at("model.num_layers") == "4");
  CHECK(side.fields.at("system.ranks") == "16");
  // A run that came to nothing does not.
  CHECK(log_of(first + second)->fields.at("model.num_layers") == "2");
}

TEST_CASE("logs of few lines, with launchers' marks, and of other programs", "[diff]") {
  CHECK(log_of(iteration(10.0))->step_ps == 10'000 * kMicrosecond);
  CHECK(log_of(iteration(10.0) + iteration(30.0))->step_ps == 20'000 * kMicrosecond);
  CHECK(log_of("63: " + iteration(10.0))->step_ps == 10'000 * kMicrosecond);
  CHECK(log_of(iteration(10.0))->metrics.count("model_tflops_per_gpu") == 0);
  // As the fork for ROCm writes it: this iteration, and the mean so far.
  CHECK(log_of(" iteration 1/ 9 | elapsed time per iteration (ms): 12.5/14.0 |")->step_ps ==
        12'500 * kMicrosecond);
  CHECK_FALSE(log_of("").has_value());
  CHECK_FALSE(log_of("step 1 loss 2.0\n").has_value());
  CHECK_FALSE(log_of("elapsed time per iteration (ms): soon\n").has_value());
}

TEST_CASE("a profiler's trace is divided as Holistic Trace Analysis divides it", "[diff]") {
  std::ifstream file(kTrace);
  const JsonOutline outline = outline_json(file);
  CHECK(outline.is_json);
  REQUIRE(outline.trace.has_value());
  const RunSide& side = *outline.trace;
  // Two steps from 0 to 360 us. Compute 0-100 and 200-320, NCCL beside it 80-150 and 250-350,
  // copies 150-160 and 355-360.
  CHECK(side.step_ps == 180 * kMicrosecond);
  CHECK(part_of(side, "compute") == 110 * kMicrosecond);
  CHECK(part_of(side, "exposed comm") == 40 * kMicrosecond);
  CHECK(part_of(side, "copies") == 15 * kMicrosecond / 2);
  CHECK(part_of(side, "idle") == 45 * kMicrosecond / 2);
  CHECK(side.metrics.at("time.hidden_comm_s") == Approx(45e-6));
  CHECK(side.what == "profiler trace of rank 5, 2 steps");
}

TEST_CASE("parts of random traces are those of a clock that looks every microsecond", "[diff]") {
  constexpr int kLength = 200;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const RandomStream random(seed, "trace");
    std::uint64_t drawn = 0;
    const auto below = [&](std::uint64_t bound) {
      return static_cast<int>(random.below(drawn++, bound));
    };
    std::vector<int> kinds(kLength, 0);  // Bits: 1 compute, 2 communication, 4 copies.
    std::string events;
    int first = kLength;
    int last = 0;
    for (int i = 0; i < 12; ++i) {
      const int begin = below(kLength - 20);
      const int length = below(20);
      const int kind = below(3);
      const char* const names[] = {"gemm", "ncclDevKernel_SendRecv", "Memcpy DtoD"};
      events += fmt::format(R"({}{{"ph": "X", "cat": "{}", "name": "{}", "ts": {}.0, "dur": {}}})",
                            events.empty() ? "" : ",", kind == 2 ? "gpu_memcpy" : "kernel",
                            names[kind], begin, length);
      for (int us = begin; us < begin + length; ++us)
        kinds[static_cast<std::size_t>(us)] |= 1 << kind;
      first = std::min(first, begin);
      last = std::max(last, begin + length);
    }
    std::int64_t amounts[4] = {0, 0, 0, 0};
    for (int us = first; us < last; ++us) {
      const int kind = kinds[static_cast<std::size_t>(us)];
      ++amounts[(kind & 1) != 0 ? 0 : (kind & 2) != 0 ? 1 : kind != 0 ? 2 : 3];
    }
    const RunSide side = *outline_of("{\"traceEvents\": [" + events + "]}").trace;
    INFO("seed " << seed);
    CHECK(side.step_ps == (last - first) * kMicrosecond);
    CHECK(part_of(side, "compute") == amounts[0] * kMicrosecond);
    CHECK(part_of(side, "exposed comm") == amounts[1] * kMicrosecond);
    CHECK(part_of(side, "copies") == amounts[2] * kMicrosecond);
    CHECK(part_of(side, "idle") == amounts[3] * kMicrosecond);
  }
}

TEST_CASE("JSON texts are told apart by their first level", "[diff]") {
  CHECK_FALSE(outline_of("{\"a\": {\"traceEvents\": []}}").trace.has_value());
  CHECK(outline_of("// a comment\n{\"a\": 1, \"b\": {\"c\": 2}}").keys ==
        std::vector<std::string>{"a", "b"});
  CHECK_FALSE(outline_of("{\"a\": ").is_json);
  CHECK(outline_of("{\"traceEvents\": []}").trace->step_ps == 0);
  // Only what the GPU did counts.
  CHECK(outline_of(R"({"traceEvents": [
      {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 5},
      {"ph": "B", "cat": "kernel", "name": "gemm", "ts": 1, "dur": 5},
      {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1, "args": {"dur": 5}}]})")
            .trace->step_ps == 0);
}

}  // namespace shardsim::test
