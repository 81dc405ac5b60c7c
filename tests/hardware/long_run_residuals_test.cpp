#include <catch2/catch.hpp>

#include "sim/hardware/software.hpp"

#include "tests/hardware/residuals_fixture.hpp"

// Prices of a device, launches and clocks of long runs in them, against measured times.
using namespace shardsim;
using namespace shardsim::testing;

namespace {

// A forward of a gated delta rule, whose bytes are as strategies/model/delta_rule.cpp counts them.
SplitErrors delta_rule_errors(Device device, const std::string& gpu) {
  constexpr std::int64_t kChunk = 64;
  device.launch_s = 3e-6;
  device.software = find_software("megatron-core-2025");
  SplitErrors errors;
  for (const MeasuredRow& row : measured_table("delta_rule_aiconfigurator.csv")) {
    if (row.at("gpu") != gpu) continue;
    const std::int64_t samples = integer(row, "batch");
    const std::int64_t tokens = samples * integer(row, "seq_len");
    const std::int64_t heads = integer(row, "v_heads");
    const std::int64_t key = integer(row, "k_head_dim");
    const std::int64_t value = integer(row, "v_head_dim");
    const std::int64_t columns =
        4 * tokens * (integer(row, "k_heads") * key + heads * value + heads) + 8 * heads;
    const std::int64_t kept = tokens * heads * (4 + 2 * kChunk);
    const std::int64_t chunks = samples * ((integer(row, "seq_len") + kChunk - 1) / kChunk);
    const std::int64_t between = 2 * heads * (tokens * (key + 2 * value) + chunks * key * value);
    const std::int64_t flops = tokens * heads * (kChunk * (6 * key + 4 * value) + 6 * key * value);
    const Time time = device.price({"",
                                    ComputeKind::matmul,
                                    DType::bf16,
                                    flops,
                                    columns + kept + 2 * between,
                                    {KernelFamily::delta_rule}});
    errors.add(time.seconds(), number(row, "time_us") * 1e-6);
  }
  return errors;
}

}  // namespace

// The charges of a device. The H100's share is that of its row; the A100's row was not fitted.
TEST_CASE("large products of long runs reach their measured rates") {
  const auto rate_of = [](const std::string& gpu) {
    return gpu == "H100-80GB-SXM" ? h100_sxm() : a100_sxm();
  };
  int rows = 0;
  for (const MeasuredRow& row : measured_table("sustained_matmul_tflops.csv")) {
    INFO(row.at("gpu"));
    const KernelShape shape{KernelFamily::matrix_product, integer(row, "m"), integer(row, "n"),
                            integer(row, "k"), 1};
    const std::int64_t flops = 2 * shape.m * shape.n * shape.k;
    const std::int64_t bytes = 2 * (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n);
    const Time time =
        rate_of(row.at("gpu")).price({"", ComputeKind::matmul, DType::bf16, flops, bytes, shape});
    const double tflops = static_cast<double>(flops) / time.seconds() * 1e-12;
    CHECK(std::abs(tflops / number(row, "sustained_tflops") - 1.0) < 0.005);
    ++rows;
  }
  CHECK(rows == 2);
}

// One constant for each GPU; before there was none, and prices were a third to a half of the times.
TEST_CASE("a gated delta rule is as far from its measured times as it was") {
  struct Case {
    Device device;
    const char* gpu;
    double fitted;
    double held_out;
  };
  for (const Case& of :
       {Case{h100_sxm(), "H100-80GB-SXM", 0.1221, 0.1117},
        Case{b200_sxm(), "B200-SXM", 0.1243, 0.0960},
        Case{device_with("gb200", 2500e12, 8000e9, 0.666), "GB200", 0.1685, 0.1458}}) {
    INFO(of.gpu);
    const SplitErrors errors = delta_rule_errors(of.device, of.gpu);
    CHECK(errors.count() == 45);
    CHECK(errors.fitted() < of.fitted);
    CHECK(errors.held_out() < of.held_out);
  }
}
