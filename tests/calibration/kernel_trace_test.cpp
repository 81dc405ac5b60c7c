#include <algorithm>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "scenarios/scenario_error.hpp"
#include "sim/accuracy/kernel_measurement.hpp"
#include "sim/accuracy/trace_operations.hpp"

#include "tests/calibration/calibrate_fixture.hpp"

// Traces of PyTorch's profiler, as `shardsim calibrate kernels` reads them. The trace in data is
// made by make_kernel_trace.py, in the form of real ones.
namespace shardsim::test {
namespace {

constexpr const char* kTrace = "tests/calibration/data/kernel-trace.json";

std::string document(const std::string& events) {
  return R"({"schemaVersion": 1, "traceEvents": [)" + events + "]}";
}

std::string operation(const std::string& name, int id, double begin, double duration,
                      const std::string& inputs) {
  return fmt::format(
      R"({{"ph": "X", "cat": "cpu_op", "name": "{}", "pid": 1, "tid": 1, "ts": {}, "dur": {},
          "args": {{"External id": {}{}{}}}}},)",
      name, begin, duration, id, inputs.empty() ? "" : ", ", inputs);
}

std::string launch(int correlation, double at, int thread = 1) {
  return fmt::format(
      R"({{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": {},
          "ts": {}, "dur": 1, "args": {{"correlation": {}}}}},)",
      thread, at, correlation);
}

std::string kernel(const std::string& name, double duration, const std::string& ids) {
  return fmt::format(
      R"({{"ph": "X", "cat": "kernel", "name": "{}", "pid": 0, "tid": 7, "ts": 5, "dur": {},
          "args": {{{}}}}})",
      name, duration, ids);
}

const std::string kMm =
    R"("Input Dims": [[64, 32], [32, 16]], "Input type": ["c10::BFloat16", "c10::BFloat16"])";

KernelTrace trace_of(const std::string& events) {
  return parse_kernel_trace(document(events), "trace.json");
}

}  // namespace

TEST_CASE("a trace tells what was matched, and names the rest with its time") {
  const KernelTrace trace = parse_kernel_trace(content_of(kTrace), kTrace);
  CHECK(trace.kernels == 138);
  CHECK(trace.communication_seconds == Approx(3e-3));
  // The generator's: products, attention, and what is left.
  const double tokens = 4096;
  const auto product = [&](double columns, double rows) {
    return 6e-6 + 2 * tokens * columns * rows / 520e12;
  };
  const double products = 3 * (5 * (product(6144, 4096) + product(4096, 4096) +
                                    product(28672, 4096) + product(4096, 14336)) +
                               product(128256, 4096));
  const double pairs = 2.0 * 32 * tokens * tokens * 128 / 2;
  CHECK(trace.matched.at(0) == Approx(products).epsilon(1e-6));
  CHECK(trace.matched.at(1) == Approx(5 * 2 * pairs / 300e12).epsilon(1e-6));
  CHECK(trace.matched.at(2) == Approx(5 * 5 * pairs / 240e12).epsilon(1e-6));
  double unmatched = 0.0;
  for (const UnmatchedKernels& each : trace.unmatched) unmatched += each.seconds;
  CHECK(trace.matched_seconds() + unmatched == Approx(trace.seconds - trace.communication_seconds));
  CHECK(trace.coverage() == Approx(0.957).margin(5e-4));
  REQUIRE(trace.unmatched.size() == 6);
  CHECK(
      std::ranges::is_sorted(trace.unmatched, std::ranges::greater(), &UnmatchedKernels::seconds));
  CHECK(trace.unmatched[4].why ==
        "a product, launched by no operation whose inputs are known here");
  CHECK(trace.unmatched[5].name == "my_fused_router_kernel");
  CHECK(trace.unmatched[5].why == "its name is not known");
  // Ten shapes are rows; attention's one shape is a row for each call, of all its kernels.
  CHECK(trace.rows.size() == 10 + 5 + 5);
  CHECK(trace.rows.back().operation == KernelOperation::attention_backward);
  CHECK(trace.rows.back().library == AttentionLibrary::flash2);
  CHECK(trace.rows.back().seconds == Approx(5 * pairs / 240e12).epsilon(1e-6));
  CHECK(trace.rows.back().work.shape ==
        KernelShape{KernelFamily::attention_backward, 4096, 4096, 128, 32});
}

TEST_CASE("a kernel belongs to the innermost operation that was open when it was launched") {
  const std::string product = kernel("nvjet_tst", 3, R"("correlation": 12, "External id": 12)");
  // The id of a kernel is another operation's by chance, as in traces of before 2024.
  const std::string other = operation(
      "aten::mm", 12, 100, 10,
      R"("Input Dims": [[8, 8], [8, 8]], "Input type": ["c10::BFloat16", "c10::BFloat16"])");
  const std::string mine =
      operation("aten::linear", 1, 0, 20, "") + operation("aten::mm", 2, 2, 10, kMm);
  const auto shape = [](const KernelTrace& trace) {
    REQUIRE(trace.rows.size() == 1);
    return trace.rows.front().work.shape;
  };
  const KernelShape expected{KernelFamily::matrix_product, 64, 16, 32, 1};
  CHECK(shape(trace_of(mine + other + launch(12, 4) + product)) == expected);
  // Without a launch, the external id is all there is.
  CHECK(shape(trace_of(mine + kernel("nvjet_tst", 3, R"("correlation": 12, "External id": 2)"))) ==
        expected);
  CHECK(trace_of(mine + launch(12, 15) + product).coverage() == 0);    // mm has ended,
  CHECK(trace_of(mine + launch(12, 4, 2) + product).coverage() == 0);  // or is another thread's.
  CHECK(trace_of(launch(12, 4) + product).coverage() == 0);
}

TEST_CASE("kernels of an operation that are not its product are not its time") {
  const std::string one = operation("aten::addmm", 1, 0, 20,
                                    R"("Input Dims": [[16], [64, 32], [32, 16]],
         "Input type": ["c10::BFloat16", "c10::BFloat16", "c10::BFloat16"])");
  const KernelTrace trace =
      trace_of(one + launch(1, 1) + launch(2, 3) + launch(3, 5) +
               kernel("void at::native::elementwise_kernel", 2, R"("correlation": 1)") + "," +
               kernel("cutlass_80_tensorop_bf16_s16816gemm", 5, R"("correlation": 2)") + "," +
               kernel("void cublasLt::splitKreduce_kernel", 1, R"("correlation": 3)"));
  REQUIRE(trace.rows.size() == 1);
  CHECK(trace.rows.front().seconds == Approx(6e-6));
  CHECK(trace.coverage() == Approx(6.0 / 8.0));
}

TEST_CASE("what a trace does not say is said") {
  const auto why = [](const std::string& name, const std::string& inputs,
                      const std::string& kernel_name = "nvjet") {
    const KernelTrace trace = trace_of(operation(name, 1, 0, 20, inputs) + launch(1, 2) +
                                       kernel(kernel_name, 1, R"("correlation": 1)"));
    CHECK(trace.coverage() == 0);
    return trace.unmatched.front().why;
  };
  CHECK(why("aten::mm", "") == "shapes are not in the trace: profile with record_shapes=True");
  CHECK(
      why("aten::mm", R"("Input Dims": [[64, 32], [32, 16]], "Input type": ["float", "float"])") ==
      "a product in float, of which there is no constant");
  CHECK(why("aten::mm", R"("Input Dims": [[64, 32], [31, 16]],
                            "Input type": ["c10::Half", "c10::Half"])") ==
        "inputs are no two matrices");
  const KernelTrace graph = trace_of(
      operation("CompiledFunction", 1, 0, 20, "") +
      R"({"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "pid": 1, "tid": 1, "ts": 2,
          "dur": 1, "args": {"correlation": 1}},)" +
      kernel("nvjet", 1, R"("correlation": 1)"));
  CHECK(graph.unmatched.front().why ==
        "a product in a CUDA graph, whose operations a trace does not have");
  const std::string packed = R"("Input Dims": [[4096, 32, 128], [4096, 32, 128], [4096, 32, 128]],
      "Input type": ["c10::Half", "c10::Half", "c10::Half"],
      "Concrete Inputs": ["", "", "", "0.", "", "True"])";
  CHECK(why("flash_attn::_flash_attn_forward", packed, "flash::FlashAttnFwdSm90") ==
        "inputs have no batch, heads and positions: sequences are packed");
  CHECK_THROWS_AS(trace_of(launch(1, 2) + operation("aten::mm", 1, 0, 1, kMm) + "{}"),
                  ScenarioError);
  CHECK_THROWS_AS(parse_kernel_trace("{\"traceEvents\": [", "cut.json"), ScenarioError);
  CHECK_THROWS_AS(parse_kernel_trace("{}", "other.json"), ScenarioError);
}

TEST_CASE("operators have their operands where PyTorch has them") {
  const std::string type = R"("Input type": ["c10::BFloat16", "c10::BFloat16", "c10::BFloat16",
      "c10::BFloat16", "c10::BFloat16"])";
  const auto matched = [&](const std::string& name, const std::string& inputs,
                           const std::string& kernel_name) {
    const KernelTrace trace = trace_of(operation(name, 1, 0, 20, inputs) + launch(1, 2) +
                                       kernel(kernel_name, 1, R"("correlation": 1)"));
    INFO(name << (trace.unmatched.empty() ? "" : trace.unmatched.front().why));
    REQUIRE(trace.rows.size() == 1);
    return trace.rows.front();
  };
  CHECK(matched("aten::bmm", R"("Input Dims": [[4, 64, 32], [4, 32, 16]], )" + type, "nvjet")
            .work.shape == KernelShape{KernelFamily::matrix_product, 64, 16, 32, 4});
  CHECK(matched("aten::_grouped_mm", R"("Input Dims": [[1000, 32], [8, 32, 16]], )" + type,
                "cutlass::device_kernel")
            .work.shape == KernelShape{KernelFamily::matrix_product, 125, 16, 32, 8});
  const std::string fp8 =
      R"("Input type": ["c10::Float8_e4m3fn", "c10::Float8_e4m3fn", "float"], )";
  const KernelMeasurement whole =
      matched("aten::_scaled_mm", fp8 + R"("Input Dims": [[64, 32], [32, 16], []])", "nvjet");
  CHECK(whole.precision == KernelPrecision{DType::fp8_e4m3, false});
  const KernelMeasurement blocks =
      matched("aten::_scaled_mm", fp8 + R"("Input Dims": [[64, 32], [32, 16], [64, 1]])", "nvjet");
  CHECK(blocks.precision == KernelPrecision{DType::fp8_e4m3, true});
  // Heads before positions, and queries behind the gradient.
  const std::string heads_first =
      R"("Input Dims": [[2, 8, 512, 64], [2, 8, 512, 64],
      [2, 2, 512, 64], [2, 2, 512, 64], [2, 8, 512, 64]], )" +
      type + R"(, "Concrete Inputs": ["", "", "", "", "", "", "", "", "", "", "", "False"])";
  const KernelMeasurement backward =
      matched("aten::_scaled_dot_product_flash_attention_backward", heads_first,
              "pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel");
  CHECK(backward.operation == KernelOperation::attention_backward);
  CHECK(backward.work.shape == KernelShape{KernelFamily::attention_backward, 512, 512, 64, 16});
  CHECK(backward.work.flops == 5 * 2 * 16LL * 512 * 512 * 64);
  CHECK(backward.work.bytes == 2 * 4 * (16 + 4) * 512 * 64);
  CHECK(backward.library == AttentionLibrary::flash2);
  CHECK(blocks.library == std::nullopt);
}

TEST_CASE("coverage is told where there is too little to fit to") {
  const TemporaryFolder folder;
  write(folder / "short.json", document(operation("aten::mm", 1, 0, 20, kMm) + launch(1, 2) +
                                        kernel("nvjet", 3, R"("correlation": 1)") + "," +
                                        kernel("mystery", 1, R"("correlation": 2)")));
  const Printed printed = shardsim({"calibrate", "kernels", folder / "short.json"});
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.out, "coverage 75.0 % of the time that computes\n"));
  CHECK(contains(printed.out, "25.0 %  1 x mystery\n               its name is not known\n"));
  CHECK(contains(printed.err,
                 "error[E0962]: there are too few rows to fit to: 1 of products in 16 bits; 10 are "
                 "needed, of which one in 5 is held out"));
}

}  // namespace shardsim::test
