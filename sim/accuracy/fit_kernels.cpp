#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "sim/hardware/kernels/replaced_constants.hpp"

#include "sim/accuracy/kernel_calibration.hpp"

namespace shardsim {

namespace {

// A stage, and the beginnings of its constants' names.
struct StageRow {
  const char* words;
  std::array<std::string_view, 4> constants;
  bool (*takes)(const KernelMeasurement& row);
};

template <KernelOperation kOperation>
bool is_of(const KernelMeasurement& row) {
  return row.operation == kOperation;
}

template <DType kDType, bool kHasBlocks>
bool is_narrow(const KernelMeasurement& row) {
  return is_of<KernelOperation::matmul>(row) &&
         row.precision == KernelPrecision{kDType, kHasBlocks};
}

bool is_wide(const KernelMeasurement& row) {
  return is_of<KernelOperation::matmul>(row) && size_of(row.precision.dtype) == 2;
}

bool is_attention(const KernelMeasurement& row) {
  return is_of<KernelOperation::attention_forward>(row) ||
         is_of<KernelOperation::attention_backward>(row);
}

// Products in fewer bits rest on what products in 16 bits reach.
constexpr std::array<StageRow, 9> kStages = {{
    {"products in 16 bits", {"matmul_", "tile_", "epilogue_", "unaligned_"}, is_wide},
    {"products in fp8", {"fp8_share"}, is_narrow<DType::fp8_e4m3, false>},
    {"products in fp8_block", {"fp8_block_share"}, is_narrow<DType::fp8_e4m3, true>},
    {"products in fp4", {"fp4_share"}, is_narrow<DType::fp4_e2m1, false>},
    {"attention", {"flash2_", "flash3_", "cudnn_"}, is_attention},
    {"permutation", {"permutation_"}, is_of<KernelOperation::permutation>},
    {"cross_entropy", {"cross_entropy_"}, is_of<KernelOperation::cross_entropy>},
    {"amax", {"amax_"}, is_of<KernelOperation::amax>},
    {"quantize", {"quantize_"}, is_of<KernelOperation::quantize>},
}};

// Those of libraries that no row is of price nothing here.
std::vector<std::string> constants_of_stage(const StageRow& stage, const KernelConstants& all,
                                            const KernelRows& rows) {
  std::vector<std::string> names;
  const auto is_of_library = [&](const KernelMeasurement* row, AttentionLibrary library) {
    return all.library_for(row->library.value_or(AttentionLibrary::cudnn)) == library;
  };
  for (const NamedConstant& constant : constants_of(all)) {
    if (constant.library && std::ranges::none_of(rows, [&](const KernelMeasurement* row) {
          return is_of_library(row, *constant.library);
        })) {
      continue;
    }
    const std::string_view name = constant.name;
    if (std::ranges::any_of(stage.constants, [&](std::string_view beginning) {
          return !beginning.empty() && name.starts_with(beginning);
        })) {
      names.emplace_back(name);
    }
  }
  return names;
}

struct SplitRows {
  KernelRows fitted;
  KernelRows held_out;
};

// Every fifth of each file, operation and precision, as fit_kernels.py does.
SplitRows split_rows(const KernelRows& rows) {
  SplitRows split;
  std::map<std::tuple<std::size_t, KernelOperation, std::string_view>, std::size_t> counts;
  for (const KernelMeasurement* row : rows) {
    const std::size_t number = counts[{row->source, row->operation, name_of(row->precision)}]++;
    (number % kHeldOutOf == kHeldOutOf - 1 ? split.held_out : split.fitted).push_back(row);
  }
  return split;
}

// --- Stages ------------------------------------------------------------------------------------

void require_products(const KernelConstants& constants, const StageRow& row) {
  const std::string name(row.constants.front());
  const bool is_share_of_products = name.ends_with("_share");
  if (!is_share_of_products || constant_of(constants, name) > 0.0) return;
  throw UsageError("E0963",
                   fmt::format("there are rows of {}, and the constants of {} say that it has none",
                               row.words, constants.name),
                   "choose another GPU with --set system.device.kernels, or leave the rows out "
                   "with --where");
}

// Constants may begin to matter while others are fitted: they are looked for twice.
KernelStage fit_stage(const Device& device, const StageRow& row, const KernelRows& rows,
                      KernelConstants& constants) {
  KernelStage stage{.words = row.words, .rows = rows.size()};
  for (const KernelMeasurement* each : rows) {
    if (std::ranges::find(stage.sources, each->source) == stage.sources.end()) {
      stage.sources.push_back(each->source);
    }
  }
  const SplitRows split = split_rows(rows);
  stage.fitted_rows = split.fitted.size();
  require_products(constants, row);
  stage.has_enough = rows.size() >= kLeastKernelRows && !split.held_out.empty();
  if (!stage.has_enough) return stage;
  const KernelConstants before = constants;
  const std::vector<std::string> all = constants_of_stage(row, constants, rows);
  std::vector<std::string> names = told_constants(device, before, all, split.fitted);
  constants = search_constants(device, before, names, split.fitted);
  const std::vector<std::string> again = told_constants(device, constants, all, split.fitted);
  if (std::ranges::any_of(again, [&](const std::string& name) {
        return std::ranges::find(names, name) == names.end();
      })) {
    names = again;
    KernelConstants start = before;
    for (const std::string& name : names) set_constant(start, name, constant_of(constants, name));
    constants = search_constants(device, start, names, split.fitted);
  }
  for (const std::string& name : all) {
    if (std::ranges::find(names, name) == names.end()) {
      stage.untold.push_back(name);
    } else {
      stage.constants.push_back({name, constant_of(before, name), constant_of(constants, name)});
    }
  }
  return stage;
}

std::vector<KernelErrors> errors_of(const Device& device, const KernelConstants& before,
                                    const KernelConstants& after,
                                    const std::vector<KernelMeasurement>& measured) {
  std::map<std::pair<KernelOperation, std::string_view>, KernelRows> groups;
  for (const KernelMeasurement& row : measured) {
    groups[{row.operation, name_of(row.precision)}].push_back(&row);
  }
  std::vector<KernelErrors> errors;
  for (const auto& [key, rows] : groups) {
    const SplitRows split = split_rows(rows);
    errors.push_back({.operation = rows.front()->operation,
                      .precision = rows.front()->precision,
                      .rows = rows.size(),
                      .held_out_rows = split.held_out.size(),
                      .before = mean_kernel_error(device, before, split.fitted),
                      .after = mean_kernel_error(device, after, split.fitted),
                      .held_out_before = mean_kernel_error(device, before, split.held_out),
                      .held_out_after = mean_kernel_error(device, after, split.held_out)});
  }
  return errors;
}

}  // namespace

KernelFit fit_kernels(const Device& device, const std::vector<KernelMeasurement>& measured) {
  KernelFit fit{.constants = *device.kernels};
  for (const StageRow& row : kStages) {
    KernelRows rows;
    for (const KernelMeasurement& each : measured) {
      if (row.takes(each)) rows.push_back(&each);
    }
    if (rows.empty()) continue;
    fit.stages.push_back(fit_stage(device, row, rows, fit.constants));
  }
  if (std::ranges::none_of(fit.stages, &KernelStage::has_enough)) {
    std::string counts;
    for (const KernelStage& stage : fit.stages) {
      counts += fmt::format("{}{} of {}", counts.empty() ? "" : ", ", stage.rows, stage.words);
    }
    throw UsageError(
        "E0962",
        fmt::format("there are too few rows to fit to: {}; {} are needed, of which one "
                    "in {} is held out",
                    counts.empty() ? "none" : counts, kLeastKernelRows, kHeldOutOf),
        "measure more shapes of one kind of operation");
  }
  if (std::ranges::all_of(fit.stages, [](const KernelStage& s) { return s.constants.empty(); })) {
    throw UsageError("E0965",
                     "the times of these rows depend on no constant: their bytes bound them",
                     "measure larger sizes, or set system.device.memory_efficiency");
  }
  fit.errors = errors_of(device, *device.kernels, fit.constants, measured);
  return fit;
}

}  // namespace shardsim
