#include <algorithm>
#include <cmath>

#include <catch2/catch.hpp>

#include "sim/hardware/kernels/kernel_constants.hpp"
#include "sim/hardware/kernels/kernel_seconds.hpp"

#include "tests/hardware/residuals_fixture.hpp"

// How far the prices are from what was measured, table by table and device by device. The bounds
// are today's errors, rounded up: they may only get smaller. tests/validation/fit_kernels.py prints
// the same figures from the same formulas.
using namespace shardsim;
using namespace shardsim::testing;

namespace {

SplitErrors product_errors(const Device& device, const std::string& gpu) {
  SplitErrors errors;
  for (const MeasuredRow& row : measured_table("gemm_achieved_by_shape.csv")) {
    if (row.at("gpu") != gpu || row.at("confirmed") != "yes") continue;
    const KernelShape shape{KernelFamily::matrix_product, integer(row, "m"), integer(row, "n"),
                            integer(row, "k"), integer(row, "groups")};
    const std::int64_t stored =
        (row.at("out_dtype") == "fp32" ? 4 : 2) * (row.at("accumulate").empty() ? 1 : 2);
    const std::int64_t operands = 2 * (shape.m * shape.k + shape.k * shape.n);
    const std::int64_t bytes = shape.batch * (operands + stored * shape.m * shape.n);
    const double flops = 2.0 * static_cast<double>(shape.m * shape.n * shape.k * shape.batch);
    errors.add(matrix_product_seconds(device, device.peak(DType::bf16), 2, shape, bytes),
               flops / (number(row, "peak_tflops_used") * 1e12 * number(row, "achieved_fraction")));
  }
  return errors;
}

// Tables that tell times, of products in bf16.
SplitErrors timed_product_errors(const Device& device, const std::string& table,
                                 const std::string& gpu, double least_us = 0.0) {
  SplitErrors errors;
  for (const MeasuredRow& row : measured_table(table)) {
    if (row.at("gpu") != gpu || row.at("confirmed") != "yes") continue;
    if (number(row, "time_us") <= least_us) continue;
    const std::int64_t batch = row.count("batch") == 0 ? 1 : integer(row, "batch");
    const KernelShape shape{KernelFamily::matrix_product, integer(row, "m"), integer(row, "n"),
                            integer(row, "k"), batch};
    const std::int64_t elements = shape.m * shape.k + shape.k * shape.n + shape.m * shape.n;
    errors.add(
        matrix_product_seconds(device, device.peak(DType::bf16), 2, shape, 2 * batch * elements),
        number(row, "time_us") * 1e-6);
  }
  return errors;
}

struct Pass {
  KernelFamily family;
  std::int64_t products;
};

// The directions that a row is of.
std::vector<Pass> passes_of(const MeasuredRow& row) {
  const Pass forward{KernelFamily::attention_forward, 2};
  const Pass backward{KernelFamily::attention_backward, 5};
  if (row.at("phase") == "fwd") return {forward};
  if (row.at("phase") == "bwd") return {backward};
  return {forward, backward};
}

// The work of a call, as tables count it, and its shape.
struct Attention {
  explicit Attention(const MeasuredRow& row)
      : shape{KernelFamily::attention_forward, integer(row, "seq_len"), integer(row, "seq_len"),
              integer(row, "qk_head_dim"), integer(row, "batch") * integer(row, "heads")} {
    const std::int64_t square = 2 * shape.batch * shape.m * shape.n * shape.k;
    const bool is_causal = row.at("kernel") == "causal kernel";
    for (const Pass& pass : passes_of(row)) all_flops += pass.products * square;
    flops_of_product = is_causal ? square / 2 : square;
    const double counted = row.at("flop_convention") == "halved for causal" ? 0.5 : 1.0;
    seconds = counted * static_cast<double>(all_flops) / (number(row, "tflops") * 1e12);
  }

  KernelShape shape;
  std::int64_t all_flops = 0;
  std::int64_t flops_of_product = 0;
  double seconds = 0.0;
};

constexpr const char* kFirstTable = "attention_kernel_throughput.csv";
constexpr const char* kMoreTable = "attention_kernel_throughput_more.csv";

// Rows of a table. Empty texts hold for any.
struct AttentionRows {
  const char* table = kFirstTable;
  std::string gpu;
  std::string implementation;
  std::string confirmed;
  std::string phase;

  [[nodiscard]] bool have(const MeasuredRow& row) const {
    return row.at("gpu") == gpu && row.at("implementation").rfind(implementation, 0) == 0 &&
           (confirmed.empty() || row.at("confirmed") == confirmed) &&
           (phase.empty() || row.at("phase") == phase) &&
           row.at("note").find("looks too low") == std::string::npos && row.at("dtype") != "fp8";
  }
};

SplitErrors attention_errors(const Device& device, AttentionLibrary library,
                             const AttentionRows& rows) {
  SplitErrors errors;
  const AttentionKernels& kernels = device.kernels->attention_of(library);
  for (const MeasuredRow& row : measured_table(rows.table)) {
    if (!rows.have(row)) continue;
    Attention call(row);
    double predicted = 0.0;
    for (const Pass& pass : passes_of(row)) {
      call.shape.family = pass.family;
      predicted += fused_attention_seconds(device, kernels, device.peak(DType::bf16), call.shape,
                                           pass.products * call.flops_of_product, 0);
    }
    errors.add(predicted, call.seconds);
  }
  return errors;
}

// As an eager framework does it: scale, mask where there is one, and softmax, each on its own.
SplitErrors unfused_errors(const Device& device) {
  SplitErrors errors;
  const AttentionRows rows{kFirstTable, "A100-80GB-SXM", "PyTorch unfused", "no", ""};
  for (const MeasuredRow& row : measured_table(kFirstTable)) {
    if (!rows.have(row)) continue;
    Attention call(row);
    const int masks = row.at("kernel") == "causal kernel" ? 2 : 0;
    const ScorePasses passes{.forward = 4.0 + masks, .backward = 5.0 + masks};
    double predicted = 0.0;
    for (const Pass& pass : passes_of(row)) {
      call.shape.family = pass.family;
      predicted +=
          unfused_attention_seconds(device, device.peak(DType::bf16), 2, call.shape, passes);
    }
    errors.add(predicted, call.seconds);
  }
  return errors;
}

// A layer of experts, forward: rows go to their experts, through both products and what is between
// them, and are added up.
double expert_layer_seconds(const Device& device, const MeasuredRow& row) {
  const std::int64_t h = integer(row, "hidden");
  const std::int64_t f = integer(row, "expert_ffn");
  const std::int64_t experts = integer(row, "local_experts");
  const std::int64_t pairs = integer(row, "tokens") * integer(row, "topk") / integer(row, "ep");
  const std::int64_t tokens = std::min(integer(row, "tokens"), pairs);
  const auto product = [&](std::int64_t n, std::int64_t k) {
    const std::int64_t of_expert = (pairs + experts - 1) / experts;
    const KernelShape shape{KernelFamily::matrix_product, of_expert, n, k, experts};
    const std::int64_t bytes = 2 * (pairs * (n + k) + experts * n * k);
    return device.price({"", ComputeKind::matmul, DType::bf16, 2 * pairs * n * k, bytes, shape});
  };
  const auto move = [&](std::int64_t elements, KernelFamily family) {
    return device.price({"", ComputeKind::memory_bound, DType::bf16, 0, 2 * elements, {family}});
  };
  const Time time = move(2 * pairs * h, KernelFamily::permutation) + product(2 * f, h) +
                    move(3 * pairs * f, KernelFamily::activation) + product(h, f) +
                    move((pairs + tokens) * h, KernelFamily::permutation);
  return time.seconds();
}

// Mean absolute relative error. Nothing is fitted on these rows.
double expert_layer_error(const Device& device, const std::string& gpu) {
  double sum = 0.0;
  double rows = 0.0;
  for (const MeasuredRow& row : measured_table("moe_grouped_aiconfigurator.csv")) {
    if (row.at("gpu") != gpu) continue;
    sum += std::abs(expert_layer_seconds(device, row) / (number(row, "time_us") * 1e-6) - 1.0);
    rows += 1.0;
  }
  REQUIRE(rows == 45.0);
  return sum / rows;
}

}  // namespace

TEST_CASE("matrix products on an A100 are as far from their measured times as they were") {
  const SplitErrors errors = product_errors(a100_pcie(), "A100-PCIe-80GB");
  CHECK(errors.count() == 195);
  CHECK(errors.fitted() < 0.0357);
  CHECK(errors.held_out() < 0.0341);
}

// Sources differ by 1.5 in the rates of large products, so that none is met well: the first has the
// slowest, the second the fastest. Constants of one of them are 31 % off in the mean of all three.
TEST_CASE("matrix products on a B200 are as far from the times of three sources as they were") {
  const SplitErrors slow = product_errors(b200_sxm(), "B200-SXM");
  CHECK(slow.count() == 514);
  CHECK(slow.fitted() < 0.2534);
  CHECK(slow.held_out() < 0.2439);
  const SplitErrors fast = timed_product_errors(b200_sxm(), "gemm_aiconfigurator.csv", "B200-SXM");
  CHECK(fast.count() == 125);
  CHECK(fast.fitted() < 0.1822);
  CHECK(fast.held_out() < 0.0706);
  const SplitErrors small = timed_product_errors(b200_sxm(), "gemm_xla_grid.csv", "B200");
  CHECK(small.count() == 372);
  CHECK(small.fitted() < 0.2092);
  CHECK(small.held_out() < 0.2076);
}

// Bursts are compared with the rate of bursts: without sustained_share. The grid of XLA was not
// fitted; its small products are launches.
TEST_CASE("matrix products on an H100 are as far from the times of two sources as they were") {
  const SplitErrors own =
      timed_product_errors(h100_sxm(), "gemm_aiconfigurator.csv", "H100-80GB-SXM");
  CHECK(own.count() == 125);
  CHECK(own.fitted() < 0.0548);
  CHECK(own.held_out() < 0.0613);
  const SplitErrors other = timed_product_errors(h100_sxm(), "gemm_xla_grid.csv", "H100", 50.0);
  CHECK(other.count() == 46);
  CHECK(other.fitted() < 0.0592);
  CHECK(other.held_out() < 0.0587);
}

TEST_CASE("fused attention is as far from its measured times as it was") {
  struct Case {
    Device device;
    AttentionLibrary library;
    AttentionRows rows;
    int count;
    double fitted;
    double held_out;
  };
  const std::string h100 = "H100-80GB-SXM";
  const auto of_h100 = [&](AttentionLibrary library, const char* implementation, const char* phase,
                           int count, double fitted, double held_out) {
    return Case{h100_sxm(), library, {kMoreTable, h100, implementation, "", phase},
                count,      fitted,  held_out};
  };
  for (const Case& of :
       {Case{a100_pcie(),
             AttentionLibrary::flash2,
             {kFirstTable, "A100-PCIe-80GB", "vendor fused", "yes", ""},
             16,
             0.0194,
             0.0130},
        Case{b200_sxm(),
             AttentionLibrary::cudnn,
             {kFirstTable, "B200-SXM", "vendor fused", "yes", ""},
             44,
             0.0679,
             0.0536},
        Case{b200_sxm(),
             AttentionLibrary::flash2,
             {kMoreTable, "B200", "FlashAttention-2", "yes", ""},
             20,
             0.0894,
             0.0427},
        of_h100(AttentionLibrary::flash2, "FlashAttention-2", "fwd", 36, 0.0534, 0.0463),
        of_h100(AttentionLibrary::flash2, "FlashAttention-2", "bwd", 12, 0.0065, 0.0011),
        of_h100(AttentionLibrary::flash3, "FlashAttention-3", "fwd", 36, 0.0627, 0.0381),
        of_h100(AttentionLibrary::flash3, "FlashAttention-3", "bwd", 12, 0.0176, 0.0129),
        of_h100(AttentionLibrary::cudnn, "cuDNN 9", "fwd", 36, 0.0725, 0.0658),
        of_h100(AttentionLibrary::cudnn, "cuDNN 9", "bwd", 12, 0.0186, 0.0073)}) {
    INFO(of.rows.gpu << ", " << of.rows.implementation << ", " << of.rows.phase);
    const SplitErrors errors = attention_errors(of.device, of.library, of.rows);
    CHECK(errors.count() == of.count);
    CHECK(errors.fitted() < of.fitted);
    CHECK(errors.held_out() < of.held_out);
  }
}

// For the A100 SXM these rows fit only the effect of heads and lengths, not its speed. Those of an
// H100 were not fitted: FlashAttention-2's own chart, and three benchmarks of FlashAttention-3.
TEST_CASE("fused attention is as far from rows that give no rates as it was") {
  const SplitErrors a100 =
      attention_errors(a100_sxm(), AttentionLibrary::flash2,
                       {kFirstTable, "A100-80GB-SXM", "FlashAttention-2", "no", ""});
  CHECK(a100.count() == 65);
  CHECK(a100.fitted() < 0.0593);
  CHECK(a100.held_out() < 0.0567);
  const SplitErrors older =
      attention_errors(h100_sxm(), AttentionLibrary::flash2,
                       {kFirstTable, "H100-80GB-SXM", "FlashAttention-2", "no", ""});
  CHECK(older.count() == 24);
  CHECK(older.fitted() < 0.0529);
  CHECK(older.held_out() < 0.0454);
  const SplitErrors newer = attention_errors(h100_sxm(), AttentionLibrary::flash3,
                                             {kMoreTable, "H100", "FlashAttention-3", "yes", ""});
  CHECK(newer.count() == 18);
  CHECK(newer.fitted() < 0.0982);
  CHECK(newer.held_out() < 0.0943);
}

// Nothing is fitted on these rows.
TEST_CASE("unfused attention is as far from transcribed, unconfirmed times as it was") {
  const SplitErrors errors = unfused_errors(a100_sxm());
  CHECK(errors.count() == 14);
  CHECK(errors.fitted() < 0.2226);
  CHECK(errors.held_out() < 0.2051);
}

// The share of the bandwidth that rows reach on their way is that of the B200: with the A100
// PCIe's, layers on an H100 are off by 0.38.
TEST_CASE("layers of experts are as far from their measured times as they were") {
  CHECK(expert_layer_error(h100_sxm(), "H100-80GB-SXM") < 0.203);
  CHECK(expert_layer_error(b200_sxm(), "B200-SXM") < 0.361);
}
