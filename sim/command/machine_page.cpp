#include "sim/command/machine_page.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "sim/hardware/kernels/kernel_constants.hpp"

#include "scenarios/kernels_of.hpp"
#include "scenarios/load.hpp"
#include "scenarios/presets.hpp"

namespace shardsim {

namespace {

constexpr const char* kPriceHead = R"(# What is priced from what

`shardsim presets --prices` prints this page. Sources of single numbers: `shardsim presets NAME` and, of a run, `--assumptions`.

- *measured*: rows of this GPU. *Best shape*: one number of it.
- *as X*: a neighbour's share of the peak, declared in the constant; the peak is this GPU's.
- *data sheet*: the peak, or the bandwidth, times one share for all products, or all other kernels: no kernel of this device is known.
- *none*: the device has no such products.

| Preset | Products in 16 bits | fp8, a scale for a tensor | fp8, scales of blocks | NVFP4 | Attention | Casts | Other kernels | Collectives |
|---|---|---|---|---|---|---|---|---|
)";

// A number of samples that every machine's GPUs divide.
SystemSpec system_of(const std::string& preset) {
  const std::string text = fmt::format(
      R"({{"schema_version": 1, "model": "gpt2", "system": {{"preset": "{}", "nodes": 1}},
          "training": {{"global_batch_size": 9216}}}})",
      preset);
  return load_scenario_text(text, preset).system;
}

// The prices of a kind of kernel, by the constants that they are made of.
struct PriceColumn {
  DType dtype;  // The products'; bf16 for all else.
  std::vector<std::string_view> constants;
};

const std::vector<PriceColumn>& price_columns() {
  static const std::vector<PriceColumn> kColumns = {
      {DType::bf16, {"matmul_rate", "tile_halving", "tile_overhead_s", "epilogue_exposed"}},
      {DType::fp8_e4m3, {"fp8_share"}},
      {DType::fp8_e4m3, {"fp8_block_share"}},
      {DType::fp4_e2m1, {"fp4_share"}},
      {DType::bf16,
       {"flash2_forward_rate", "flash2_backward_rate", "cudnn_forward_rate",
        "cudnn_backward_rate"}},
      {DType::bf16, {"amax_share", "quantize_share"}},
      {DType::bf16, {"permutation_share", "cross_entropy_share"}}};
  return kColumns;
}

// "H100" of "h100-sxm", "A100 PCIe" of "a100-pcie".
std::string gpu_of_kernels(std::string_view kernels) {
  std::string gpu(kernels.substr(0, kernels.find('-')));
  for (char& letter : gpu) {
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  }
  return kernels.ends_with("-pcie") ? gpu + " PCIe" : gpu;
}

// The GPU with kernels of its own that a text names first; of two at one place the longer name.
std::string gpu_in(std::string_view text) {
  std::string found = "another";
  std::size_t first = std::string_view::npos;
  for (const KernelConstants& constants : all_kernel_constants()) {
    const std::string gpu = gpu_of_kernels(constants.name);
    const std::size_t at = text.find(gpu);
    if (at > first || at == std::string_view::npos) continue;
    if (at == first && gpu.size() < found.size()) continue;
    first = at;
    found = gpu;
  }
  return found;
}

// "as H100" of "neighbour: the H100's", or of an H800 with the H100's kernels.
std::string origin_of(std::string_view source, const DeviceSpec& device) {
  if (source.rfind("neighbour: ", 0) == 0) return fmt::format("as {}", gpu_in(source));
  if (source.rfind("assumed: ", 0) == 0) return "assumed";
  if (source.rfind(kReplacedSource, 0) == 0) return "calibrated";
  const std::string gpu = gpu_of_kernels(device.kernels);
  if (device.name.find(gpu) == std::string::npos) return fmt::format("as {}", gpu);
  return source.rfind("best shape", 0) == 0 ? "best shape" : "measured";
}

std::string price_cell(const SystemSpec& system, const PriceColumn& column) {
  if (system.device.peak_tflops.of(column.dtype) == 0.0) return "none";
  const std::shared_ptr<const KernelConstants> kernels = kernels_of(system.device);
  if (kernels == nullptr || system.kernel_model == "roofline") return "data sheet";
  std::vector<std::string> origins;
  for (const NamedConstant& constant : constants_of(*kernels)) {
    if (std::ranges::find(column.constants, constant.name) == column.constants.end()) continue;
    if (column.dtype != DType::bf16 && constant.number.value == 0.0) return "none";
    if (constant.library && constant.number.value == 0.0) continue;
    const std::string origin = origin_of(constant.number.source, system.device);
    if (std::ranges::find(origins, origin) == origins.end()) origins.push_back(origin);
  }
  return fmt::format("{}", fmt::join(origins, ", "));
}

std::string collective_words(const SystemSpec& system) {
  return system.network.is_nccl() ? "NCCL's model" : "latency and bandwidth";
}

}  // namespace

std::string price_page() {
  std::string page = kPriceHead;
  for (const std::string& name : builtin_preset_names("systems")) {
    const SystemSpec system = system_of(name);
    page += "| " + name;
    for (const PriceColumn& column : price_columns()) page += " | " + price_cell(system, column);
    page += " | " + collective_words(system) + " |\n";
  }
  return page;
}

}  // namespace shardsim
