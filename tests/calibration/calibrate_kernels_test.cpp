#include <algorithm>
#include <sstream>
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
const Words kGrid = {"kernels",  "tests/validation/gemm_xla_grid.csv",
                     "--value",  "operation=matmul",
                     "--column", "dtype=lhs_dtype",
                     "--where",  "gpu=B200",
                     "--where",  "lhs_dtype=bf16"};
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

std::vector<double> errors_from_h100(const Words& words) {
  const Printed printed = shardsim(Words{"calibrate"} + words + kB200AsH100);
  INFO(printed.out << printed.err);
  REQUIRE(printed.exit_code == 0);
  return errors_in(printed.out, "matmul, bf16");
}

// The H100 has no products in fp4.
KernelConstants h100_with_fp4() {
  KernelConstants constants = *find_kernel_constants("h100-sxm");
  set_constant(constants, "fp4_share", 0.7);
  return constants;
}

std::vector<KernelMeasurement> planted(const Device& device, const KernelConstants& truth) {
  std::vector<KernelMeasurement> rows;
  const MeasuredPrices priced(device, truth);
  const auto add = [&](KernelOperation operation, const KernelPrecision& precision,
                       const ComputeOp& work) {
    // Every other one is of a burst.
    KernelMeasurement row{.operation = operation, .precision = precision, .work = work};
    row.is_burst = rows.size() % 2 == 1;
    row.seconds = priced.seconds(row);
    rows.push_back(row);
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
  SECTION("products that a training has") {
    const std::vector<double> errors = errors_from_h100(kProducts);
    CHECK(errors[1] <= 10.4);
    CHECK(errors[3] <= errors[2] / 2);
    CHECK(errors[3] <= 9.3);
  }
  SECTION("a grid of sizes") {
    const std::vector<double> errors = errors_from_h100(kGrid);
    CHECK(errors[1] <= 13.6);
    CHECK(errors[3] <= errors[2] / 2);
    CHECK(errors[3] <= 11.3);
  }
  SECTION("linear layers, which the H100's constants meet better: by a third") {
    const std::vector<double> errors = errors_from_h100(kLinearLayers);
    CHECK(errors[1] <= 10.5);
    CHECK(errors[3] <= 8.0);
  }
}

TEST_CASE("planted constants of another GPU are found again") {
  const Device device = b200();
  KernelConstants truth = *device.kernels;
  const std::vector<std::pair<const char*, double>> other = {
      {"matmul_rate", 0.71},       {"tile_halving", 15.0},       {"tile_overhead_s", 2e-6},
      {"unaligned_share", 0.5},    {"fp8_share", 1.05},          {"fp4_share", 0.7},
      {"cudnn_forward_rate", 0.7}, {"cudnn_backward_rate", 0.6}, {"permutation_share", 0.31},
      {"quantize_share", 0.44}};
  for (const auto& [name, value] : other) set_constant(truth, name, value);
  KernelConstants start = *device.kernels;
  set_constant(start, "fp4_share", 0.5);
  Device from = device;
  from.kernels = &start;
  const KernelFit fit = fit_kernels(from, planted(device, truth));
  for (const auto& [name, value] : other) {
    INFO(name);
    CHECK(constant_of(fit.constants, name) == Approx(value).epsilon(2e-3));
  }
  for (const KernelErrors& errors : fit.errors) {
    INFO(name_of(errors.operation) << " " << name_of(errors.precision));
    CHECK(errors.before > 0.05);
    CHECK(errors.after < 1e-3);
    CHECK(errors.held_out_after < 1e-3);
  }
}

TEST_CASE("constants that the rows do not tell stay as they were") {
  const Device device = b200();
  KernelConstants truth = h100_with_fp4();
  set_constant(truth, "cudnn_forward_rate", 0.8);
  std::vector<KernelMeasurement> rows;
  for (const KernelMeasurement& row : planted(device, truth)) {
    const KernelShape& shape = row.work.shape;
    if (shape.family == KernelFamily::attention_forward && shape.k == 128 && shape.n == 8192) {
      for (int call = 0; call < 12; ++call) rows.push_back(row);
    }
  }
  REQUIRE(rows.size() == 36);
  const KernelFit fit = fit_kernels(device, rows);
  REQUIRE(fit.stages.size() == 1);
  // Another number of heads tells the tail; one size and one length tell nothing of either.
  std::vector<std::string> fitted;
  for (const FittedKernelConstant& constant : fit.stages.front().constants) {
    fitted.push_back(constant.name);
  }
  CHECK(fitted == std::vector<std::string>{"cudnn_forward_rate", "cudnn_forward_tail"});
  for (const NamedConstant& constant : constants_of(*device.kernels)) {
    if (std::ranges::find(fitted, constant.name) != fitted.end()) continue;
    CHECK(constant_of(fit.constants, constant.name) == constant.number.value);
  }
  CHECK(fit.errors.front().after < 1e-3);
}

TEST_CASE("attention of a library fits the constants of that library") {
  const Device device = b200();
  KernelConstants truth = h100_with_fp4();
  set_constant(truth, "flash2_forward_rate", 0.3);
  set_constant(truth, "cudnn_forward_rate", 0.5);
  std::vector<KernelMeasurement> rows;
  for (KernelMeasurement row : planted(device, truth)) {
    if (row.operation != KernelOperation::attention_forward) continue;
    row.library = AttentionLibrary::flash2;
    row.seconds = MeasuredPrices(device, truth).seconds(row);
    rows.push_back(row);
  }
  const KernelFit fit = fit_kernels(device, rows);
  CHECK(constant_of(fit.constants, "flash2_forward_rate") == Approx(0.3).epsilon(0.002));
  CHECK(constant_of(fit.constants, "cudnn_forward_rate") ==
        constant_of(*device.kernels, "cudnn_forward_rate"));
  for (const std::string& name : fit.stages.front().untold) {
    CHECK(name.rfind("flash2_", 0) == 0);
  }
}

TEST_CASE("a stage with too few rows is left, and nothing to fit to is refused") {
  const Device device = b200();
  std::vector<KernelMeasurement> rows = planted(device, h100_with_fp4());
  std::erase_if(rows, [&](const KernelMeasurement& row) {
    return row.operation != KernelOperation::permutation &&
           row.operation != KernelOperation::quantize;
  });
  std::erase_if(rows, [&, left = 9](const KernelMeasurement& row) mutable {
    return row.operation == KernelOperation::quantize && left-- <= 0;
  });
  const KernelFit fit = fit_kernels(device, rows);
  REQUIRE(fit.stages.size() == 2);
  CHECK(fit.stages[0].words == "permutation");
  CHECK(fit.stages[0].constants.size() == 1);
  CHECK(fit.stages[0].fitted_rows == 16);
  CHECK(fit.stages[1].rows == 9);
  CHECK(fit.stages[1].constants.empty());
  std::erase_if(rows, [](const KernelMeasurement& row) {
    return row.operation == KernelOperation::permutation;
  });
  CHECK_THROWS_WITH(fit_kernels(device, rows),
                    "there are too few rows to fit to: 9 of quantize; 10 are needed, of which one "
                    "in 5 is held out");
}

TEST_CASE("rows that are bound by their bytes tell no constant") {
  Device device = b200();
  device.memory_bytes_per_s = 1e9;
  std::vector<KernelMeasurement> rows;
  for (std::int64_t n = 1; n <= 12; ++n) {
    rows.push_back({.work = work_of(MeasuredProduct{.m = 16384, .n = 4096 * n, .k = 8}, {})});
    rows.back().seconds = MeasuredPrices(device, *device.kernels).seconds(rows.back());
  }
  CHECK_THROWS_WITH(fit_kernels(device, rows),
                    "the times of these rows depend on no constant: their bytes bound them");
}

TEST_CASE("products that the constants do not have are refused") {
  const Device device = b200();
  CHECK_THROWS_WITH(fit_kernels(device, planted(device, h100_with_fp4())),
                    "there are rows of products in fp4, and the constants of h100-sxm say that it "
                    "has none");
}

// The next calibration begins where the last one ended, and keeps what it does not fit.
TEST_CASE("what is written is read back, and kept by the next calibration") {
  const TemporaryFolder folder;
  constexpr bool kComments = true;
  const auto written = [&](const Words& words) {
    return json::parse(overlay_text_of(folder, words), nullptr, true, kComments);
  };
  const json first = written(kGrid + kB200AsH100);
  REQUIRE(first.size() == 4);
  CHECK(first.at(0).at("name") == "matmul_rate");
  CHECK(first.at(0).at("source") ==
        "shardsim calibrate kernels: 298 of 372 rows of products in 16 bits (gemm_xla_grid.csv)");
  const Words given = {"--set",
                       "system.device.kernel_constants=" + content_of(folder / "overlay.json")};
  const std::vector<double> again = errors_from_h100(kGrid + given);
  CHECK(again[0] == 13.6);
  CHECK(again[1] == 13.6);
  const json second = written({"kernels", "tests/calibration/data/kernel-trace.json", "--system",
                               "dgx-h100", "--set",
                               R"(system.device.kernel_constants=[{"name": "quantize_share",
                                   "value": 0.5, "source": "ours"}])"});
  CHECK(second.back() == json({{"name", "quantize_share"}, {"value", 0.5}, {"source", "ours"}}));
  CHECK(second.size() == 5);
}

TEST_CASE("wrong uses of kernels are refused with a way out") {
  const auto refusal_of = [](const Words& words) {
    const Printed printed = shardsim(Words{"calibrate"} + words);
    CHECK(printed.exit_code == 2);
    CHECK(printed.out.empty());
    CHECK(contains(printed.err, "= help: "));
    return printed.err.substr(0, printed.err.find('\n'));
  };
  CHECK(refusal_of({"kernels"}) == "error[E0964]: no table or trace of kernels is given");
  CHECK(contains(refusal_of({"kernels", "no.csv"}), "error[E0001]"));
  CHECK(refusal_of(kProducts + Words{"--fit", "latency"}) ==
        "error[E0964]: --fit is for outputs of nccl-tests, not for kernels");
  CHECK(refusal_of({kA100, "--where", "gpu=B200"}) ==
        "error[E0940]: --where is for tables of kernels");
  CHECK(refusal_of(kProducts + Words{"--column", "batch"}) ==
        "error[E0964]: --column \"batch\" is no NAME=VALUE");
  CHECK(refusal_of(kProducts + Words{"--value", "dtyp=bf16"}) ==
        "error[E0964]: --value \"dtyp=bf16\": nothing is called dtyp");
  CHECK(refusal_of(kProducts + Words{"--where", "gpus=B200-SXM"}) ==
        "error[E0957]: --where names the column \"gpus\", which no table has");
  CHECK(contains(refusal_of(kProducts + Words{"--set", "system.device.kernels=none"}),
                 "and have no constants to begin with"));
  CHECK(contains(
      refusal_of(kProducts + Words{"--out", "tests/validation/gemm_achieved_by_shape.csv"}),
      "error[E0910]"));
}

}  // namespace shardsim::test
