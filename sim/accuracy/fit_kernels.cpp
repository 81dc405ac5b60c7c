#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/text.hpp"

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
    {"attention", {"attention_"}, is_attention},
    {"permutation", {"permutation_"}, is_of<KernelOperation::permutation>},
    {"cross_entropy", {"cross_entropy_"}, is_of<KernelOperation::cross_entropy>},
    {"amax", {"amax_"}, is_of<KernelOperation::amax>},
    {"quantize", {"quantize_"}, is_of<KernelOperation::quantize>},
}};

std::vector<std::string> constants_of_stage(const StageRow& stage, const KernelConstants& all) {
  std::vector<std::string> names;
  for (const NamedConstant& constant : constants_of(all)) {
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
  std::vector<const KernelMeasurement*> fitted;
  std::vector<const KernelMeasurement*> held_out;
};

// Every fifth of each file, operation and precision, as fit_kernels.py does.
SplitRows split_rows(const std::vector<const KernelMeasurement*>& rows) {
  SplitRows split;
  std::map<std::tuple<std::size_t, KernelOperation, std::string_view>, std::size_t> counts;
  for (const KernelMeasurement* row : rows) {
    const std::size_t number = counts[{row->source, row->operation, name_of(row->precision)}]++;
    (number % kHeldOutOf == kHeldOutOf - 1 ? split.held_out : split.fitted).push_back(row);
  }
  return split;
}

double mean_kernel_error(const Device& device, const KernelConstants& constants,
                         const std::vector<const KernelMeasurement*>& rows) {
  const Device priced = measured_device(device, constants);
  double sum = 0.0;
  for (const KernelMeasurement* row : rows) {
    sum += std::abs(priced.price(row->work).seconds() / row->seconds - 1.0);
  }
  return rows.empty() ? 0.0 : sum / static_cast<double>(rows.size());
}

// --- Constants that rows tell ------------------------------------------------------------------

using Effect = std::vector<double>;  // One of each row.

double dot(const Effect& a, const Effect& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double own_effect(const Effect& effect) {
  return std::sqrt(dot(effect, effect) / static_cast<double>(effect.size()));
}

// Relative changes of the times over that of the constant. A constant that is 0 goes to its first
// step, and the change counts as a whole one.
Effect effect_of(const Device& device, const KernelConstants& constants, const std::string& name,
                 const std::vector<const KernelMeasurement*>& rows) {
  constexpr double kChange = 0.05;
  const ConstantLimits limits = limits_of_constant(name);
  const double value = constant_of(constants, name);
  const bool can_grow = value * (1.0 + kChange) <= limits.most;
  const double changed =
      value == 0.0 ? limits.first_step : value * (can_grow ? 1.0 + kChange : 1.0 - kChange);
  const double change = value == 0.0 ? 1.0 : changed / value - 1.0;
  KernelConstants moved = constants;
  set_constant(moved, name, changed);
  const Device still = measured_device(device, constants);
  const Device other = measured_device(device, moved);
  Effect effect;
  for (const KernelMeasurement* row : rows) {
    const double before = still.price(row->work).seconds();
    effect.push_back((other.price(row->work).seconds() / before - 1.0) / change);
  }
  return effect;
}

// The constant with the largest effect, then the one with the largest effect that the first could
// not have, and so on (Gram and Schmidt, with pivots).
std::vector<std::string> told_constants(const Device& device, const KernelConstants& constants,
                                        std::vector<std::string> names,
                                        const std::vector<const KernelMeasurement*>& rows) {
  std::vector<Effect> effects;
  for (const std::string& name : names) {
    effects.push_back(effect_of(device, constants, name, rows));
  }
  std::vector<std::string> told;
  while (!names.empty() && (told.size() + 1) * kRowsOfConstant <= rows.size()) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < effects.size(); ++i) {
      if (own_effect(effects[i]) > own_effect(effects[best])) best = i;
    }
    if (own_effect(effects[best]) < kLeastOwnEffect) break;
    const Effect chosen = effects[best];
    told.push_back(names[best]);
    names.erase(names.begin() + static_cast<std::ptrdiff_t>(best));
    effects.erase(effects.begin() + static_cast<std::ptrdiff_t>(best));
    const double square = dot(chosen, chosen);
    for (Effect& effect : effects) {
      const double share = dot(effect, chosen) / square;
      for (std::size_t i = 0; i < effect.size(); ++i) effect[i] -= share * chosen[i];
    }
  }
  return told;
}

// --- The search --------------------------------------------------------------------------------

// Pattern search: each constant up or down by a factor, then two of them at once, by smaller and
// smaller factors. The mean of absolute errors has edges, along which only two together get better.
class ConstantSearch {
 public:
  ConstantSearch(const Device& device, const std::vector<const KernelMeasurement*>& rows,
                 std::vector<std::string> names, const KernelConstants& start)
      : device_(device),
        rows_(rows),
        names_(std::move(names)),
        found_(start),
        error_(mean_kernel_error(device, start, rows)) {}

  KernelConstants run() {
    constexpr double kFirstStep = 0.4;
    constexpr double kLastStep = 5e-4;
    for (double step = kFirstStep; step > kLastStep; step /= 2.0) {
      while (moves_one(step) || moves_two(step)) {
      }
    }
    round_found();
    return found_;
  }

 private:
  // 1: up, -1: down.
  [[nodiscard]] double moved(const KernelConstants& from, const std::string& name, double step,
                             int direction) const {
    const ConstantLimits limits = limits_of_constant(name);
    const double value = constant_of(from, name);
    if (value == 0.0) return direction > 0 ? limits.first_step * step : 0.0;
    const double to = direction > 0 ? value * (1.0 + step) : value / (1.0 + step);
    return std::clamp(to, std::max(limits.least, value * 0.1), limits.most);
  }

  bool take_if_better(const KernelConstants& tried) {
    const double error = mean_kernel_error(device_, tried, rows_);
    if (!(error < error_)) return false;
    error_ = error;
    found_ = tried;
    return true;
  }

  bool moves_one(double step) {
    bool has_moved = false;
    for (const std::string& name : names_) {
      for (const int direction : {1, -1}) {
        KernelConstants tried = found_;
        set_constant(tried, name, moved(found_, name, step, direction));
        if (!take_if_better(tried)) continue;
        has_moved = true;
        break;
      }
    }
    return has_moved;
  }

  bool moves_two(double step) {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      for (std::size_t j = i + 1; j < names_.size(); ++j) {
        for (const auto& [of_first, of_second] :
             {std::pair{1, -1}, std::pair{-1, 1}, std::pair{1, 1}, std::pair{-1, -1}}) {
          KernelConstants tried = found_;
          set_constant(tried, names_[i], moved(found_, names_[i], step, of_first));
          set_constant(tried, names_[j], moved(found_, names_[j], step, of_second));
          if (take_if_better(tried)) return true;
        }
      }
    }
    return false;
  }

  // To the digits that are written. Factors never lead to 0: what is nearly that, is.
  void round_found() {
    constexpr double kNearlyNothing = 1e-4;
    for (const std::string& name : names_) {
      const ConstantLimits limits = limits_of_constant(name);
      const bool is_nothing = constant_of(found_, name) < kNearlyNothing * limits.first_step;
      if (is_nothing && limits.allow(0.0)) {
        set_constant(found_, name, 0.0);
        continue;
      }
      const std::string written = fmt::format("{:.4g}", constant_of(found_, name));
      set_constant(found_, name, parse_number<double>(written).value_or(0.0));
    }
  }

  const Device& device_;
  const std::vector<const KernelMeasurement*>& rows_;
  std::vector<std::string> names_;
  KernelConstants found_;
  double error_;
};

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
KernelStage fit_stage(const Device& device, const StageRow& row,
                      const std::vector<const KernelMeasurement*>& rows,
                      KernelConstants& constants) {
  KernelStage stage{.words = row.words, .rows = rows.size()};
  for (const KernelMeasurement* each : rows) {
    if (std::ranges::find(stage.sources, each->source) == stage.sources.end()) {
      stage.sources.push_back(each->source);
    }
  }
  const SplitRows split = split_rows(rows);
  stage.fitted_rows = split.fitted.size();
  if (rows.size() < kLeastKernelRows || split.held_out.empty()) return stage;
  require_products(constants, row);
  const KernelConstants before = constants;
  const std::vector<std::string> all = constants_of_stage(row, constants);
  std::vector<std::string> names = told_constants(device, before, all, split.fitted);
  constants = ConstantSearch(device, split.fitted, names, before).run();
  const std::vector<std::string> again = told_constants(device, constants, all, split.fitted);
  if (std::ranges::any_of(again, [&](const std::string& name) {
        return std::ranges::find(names, name) == names.end();
      })) {
    names = again;
    KernelConstants start = before;
    for (const std::string& name : names) set_constant(start, name, constant_of(constants, name));
    constants = ConstantSearch(device, split.fitted, names, start).run();
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
  std::map<std::pair<KernelOperation, std::string_view>, std::vector<const KernelMeasurement*>>
      groups;
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

Device measured_device(const Device& device, const KernelConstants& constants) {
  Device measured = device;
  measured.kernels = &constants;
  measured.launch_s = 0.0;
  measured.software = nullptr;
  return measured;
}

KernelFit fit_kernels(const Device& device, const std::vector<KernelMeasurement>& measured) {
  KernelFit fit{.constants = *device.kernels};
  bool has_enough = false;
  for (const StageRow& row : kStages) {
    std::vector<const KernelMeasurement*> rows;
    for (const KernelMeasurement& each : measured) {
      if (row.takes(each)) rows.push_back(&each);
    }
    if (rows.empty()) continue;
    fit.stages.push_back(fit_stage(device, row, rows, fit.constants));
    has_enough = has_enough || !fit.stages.back().constants.empty();
  }
  if (!has_enough) {
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
  fit.errors = errors_of(device, *device.kernels, fit.constants, measured);
  return fit;
}

}  // namespace shardsim
