#include <cmath>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/hardware/kernels/replaced_constants.hpp"

#include "sim/accuracy/kernel_calibration.hpp"

#include "tests/calibration/calibrate_fixture.hpp"

// `shardsim calibrate kernels` as a user meets it, and the fit behind it.
namespace shardsim::test {
namespace {

using nlohmann::json;

const Words kProducts = {"kernels",  "tests/validation/gemm_achieved_by_shape.csv",
                         "--value",  "operation=matmul",
                         "--value",  "dtype=bf16",
                         "--column", "batch=groups",
                         "--column", "microseconds=time_us_derived",
                         "--where",  "gpu=B200-SXM"};
const Words kLinearLayers = {"kernels", "tests/validation/gemm_aiconfigurator.csv",
                             "--value", "operation=matmul",
                             "--where", "gpu=B200-SXM",
                             "--where", "dtype=bf16"};
const Words kB200AsH100 = {"--system", "dgx-b200", "--set", "system.device.kernels=h100-sxm"};

Device b200() {
  Device device;
  device.memory_bytes_per_s = 8000e9;
  device.memory_efficiency = 0.666;
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp8_e4m3, DType::fp4_e2m1}) {
    device.peak_flops_per_s.at(static_cast<std::size_t>(dtype)) =
        2250e12 * 16.0 / static_cast<double>(element_bits(dtype));
  }
  device.kernels = find_kernel_constants("h100-sxm");
  return device;
}

// Errors of a line of the table: before, after, held out before, held out after.
std::vector<double> errors_in(const std::string& text, const std::string& operation) {
  const std::size_t at = text.find("\n  " + operation + " ");
  REQUIRE(at != std::string::npos);
  std::vector<double> errors(6);
  std::istringstream line(text.substr(at + 3 + operation.size()));
  for (double& error : errors) REQUIRE(line >> error);
  return {errors[1], errors[2], errors[4], errors[5]};
}

void check_halved(const Words& words, double most_held_out) {
  const Printed printed = shardsim(Words{"calibrate"} + words + kB200AsH100);
  INFO(printed.out << printed.err);
  REQUIRE(printed.exit_code == 0);
  const std::vector<double> errors = errors_in(printed.out, "matmul, bf16");
  CHECK(errors[3] <= errors[2] / 2);
  CHECK(errors[3] <= most_held_out);
}

std::vector<KernelMeasurement> planted(const Device& device, const KernelConstants& truth) {
  std::vector<KernelMeasurement> rows;
  const Device priced = measured_device(device, truth);
  const auto add = [&](KernelOperation operation, const KernelPrecision& precision,
                       const ComputeOp& work) {
    rows.push_back({.operation = operation,
                    .precision = precision,
                    .work = work,
                    .seconds = priced.price(work).seconds()});
  };
  for (const std::int64_t m : {128, 512, 1000, 4096, 16384}) {
    for (const std::int64_t n : {512, 1536, 4096, 12288}) {
      for (const std::int64_t k : {256, 1024, 4096, 8190}) {
        for (const char* precision : {"bf16", "fp8", "fp4"}) {
          add(KernelOperation::matmul, *find_precision(precision),
              work_of(MeasuredProduct{.m = m, .n = n, .k = k}, *find_precision(precision)));
        }
      }
    }
  }
  for (const std::int64_t seq : {512, 1024, 2048, 8192}) {
    for (const std::int64_t heads : {4, 16, 64}) {
      for (const std::int64_t size : {64, 128, 256}) {
        for (const auto operation :
             {KernelOperation::attention_forward, KernelOperation::attention_backward}) {
          add(operation, {},
              work_of(MeasuredAttention{.heads = heads,
                                        .queries = seq,
                                        .keys = seq,
                                        .head_dim = size,
                                        .is_causal = true},
                      operation, DType::bf16));
        }
      }
    }
  }
  for (std::int64_t mib = 1; mib <= 20; ++mib) {
    for (const auto operation : {KernelOperation::permutation, KernelOperation::quantize}) {
      add(operation, {}, work_of_bytes(mib << 20, operation, DType::bf16));
    }
  }
  return rows;
}

}  // namespace

// The errors are those of the day they were written. No product of the fifth is seen by the fit.
TEST_CASE("a neighbour's constants are calibrated to half their error on rows held out") {
  SECTION("products that a training has") { check_halved(kProducts, 9.6); }
  SECTION("linear layers of another source") { check_halved(kLinearLayers, 12.0); }
}

TEST_CASE("planted constants of another GPU are found again") {
  const Device device = b200();
  KernelConstants truth = *device.kernels;
  const std::vector<std::pair<const char*, double>> other = {{"matmul_rate", 0.71},
                                                             {"tile_halving", 15.0},
                                                             {"tile_overhead_s", 2e-6},
                                                             {"unaligned_share", 0.5},
                                                             {"fp8_share", 1.05},
                                                             {"fp4_share", 0.7},
                                                             {"attention_forward_rate", 0.7},
                                                             {"attention_backward_rate", 0.6},
                                                             {"permutation_share", 0.31},
                                                             {"quantize_share", 0.44}};
  for (const auto& [name, value] : other) set_constant(truth, name, value);
  KernelConstants start = *device.kernels;
  set_constant(start, "fp4_share", 0.5);  // The H100 has none.
  Device from = device;
  from.kernels = &start;
  const KernelFit fit = fit_kernels(from, planted(device, truth));
  for (const auto& [name, value] : other) {
    INFO(name);
    CHECK(constant_of(fit.constants, name) == Approx(value).epsilon(0.02));
  }
  for (const KernelErrors& errors : fit.errors) {
    INFO(name_of(errors.operation) << " " << name_of(errors.precision));
    CHECK(errors.before > 0.05);
    CHECK(errors.after < 0.01);
    CHECK(errors.held_out_after < 0.01);
  }
}

}  // namespace shardsim::test
