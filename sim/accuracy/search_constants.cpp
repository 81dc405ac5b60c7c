#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/text.hpp"

#include "sim/hardware/kernels/replaced_constants.hpp"
#include "sim/hardware/software.hpp"

#include "sim/accuracy/kernel_calibration.hpp"

namespace shardsim {

namespace {

// Software of one kernel for each operation, with a library of attention each.
constexpr std::array<Software, kAttentionLibraries> kOneLibrary = {
    {{.name = "flash2", .source = "", .attention = AttentionLibrary::flash2},
     {.name = "flash3", .source = "", .attention = AttentionLibrary::flash3},
     {.name = "cudnn", .source = "", .attention = AttentionLibrary::cudnn}}};

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
                 const KernelRows& rows) {
  constexpr double kChange = 0.05;
  const ConstantLimits limits = limits_of_constant(name);
  const double value = constant_of(constants, name);
  const bool can_grow = value * (1.0 + kChange) <= limits.most;
  const double changed =
      value == 0.0 ? limits.first_step : value * (can_grow ? 1.0 + kChange : 1.0 - kChange);
  const double change = value == 0.0 ? 1.0 : changed / value - 1.0;
  KernelConstants moved = constants;
  set_constant(moved, name, changed);
  const MeasuredPrices still(device, constants);
  const MeasuredPrices other(device, moved);
  Effect effect;
  for (const KernelMeasurement* row : rows) {
    effect.push_back((other.seconds(*row) / still.seconds(*row) - 1.0) / change);
  }
  return effect;
}

// --- The search --------------------------------------------------------------------------------

// The solution of linear equations, each with its right side last, by elimination. A little more on
// the diagonal keeps what rows do not tell where it is.
std::vector<double> solved(std::vector<Effect> equations) {
  constexpr double kMore = 1e-6;
  const std::size_t count = equations.size();
  for (std::size_t i = 0; i < count; ++i) equations[i][i] = equations[i][i] * (1.0 + kMore) + kMore;
  for (std::size_t pivot = 0; pivot < count; ++pivot) {
    for (std::size_t row = 0; row < count; ++row) {
      if (row == pivot) continue;
      const double share = equations[row][pivot] / equations[pivot][pivot];
      for (std::size_t i = pivot; i <= count; ++i) {
        equations[row][i] -= share * equations[pivot][i];
      }
    }
  }
  std::vector<double> result;
  for (std::size_t i = 0; i < count; ++i) result.push_back(equations[i][count] / equations[i][i]);
  return result;
}

// Pattern search: each constant up or down by a factor, then two of them at once, by smaller and
// smaller factors. The mean of absolute errors has edges, along which only two together get better.
class ConstantSearch {
 public:
  ConstantSearch(const Device& device, const KernelRows& rows, std::vector<std::string> names,
                 const KernelConstants& start)
      : device_(device),
        rows_(rows),
        names_(std::move(names)),
        found_(start),
        error_(mean_kernel_error(device, start, rows)) {}

  KernelConstants run() {
    constexpr double kFirstStep = 0.4;
    constexpr double kLastStep = 5e-4;
    for (double step = kFirstStep; step > kLastStep; step /= 2.0) {
      while (moves_all() || moves_one(step) || moves_two(step)) {
      }
    }
    round_found();
    return found_;
  }

 private:
  // All at once, by the slopes of the times: weighted least squares, in which a row counts less the
  // further off it is, so that the sum of absolute errors gets smaller. In valleys between
  // constants that nearly do each other's work, single steps stop early.
  bool moves_all() {
    constexpr double kLeastGain = 1e-4;
    constexpr int kHalvings = 4;
    const std::vector<double> steps = slope_steps();
    double share = 1.0;
    for (int halving = 0; halving < kHalvings; ++halving, share /= 2.0) {
      KernelConstants tried = found_;
      for (std::size_t i = 0; i < names_.size(); ++i) {
        const ConstantLimits limits = limits_of_constant(names_[i]);
        const double value = constant_of(found_, names_[i]);
        const double to = value * (1.0 + std::clamp(share * steps[i], -0.5, 1.0));
        if (value > 0.0) set_constant(tried, names_[i], std::min(to, limits.most));
      }
      const double before = error_;
      if (take_if_better(tried)) return before - error_ > kLeastGain * before;
    }
    return false;
  }

  // Relative changes of the constants.
  [[nodiscard]] std::vector<double> slope_steps() const {
    const double near = std::max(0.1 * error_, 1e-6);
    const MeasuredPrices priced(device_, found_);
    std::vector<Effect> slopes;
    for (const std::string& name : names_) {
      slopes.push_back(effect_of(device_, found_, name, rows_));
    }
    const std::size_t count = names_.size();
    std::vector<Effect> equations(count, Effect(count + 1, 0.0));
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const double share = priced.seconds(*rows_[row]) / rows_[row]->seconds;
      const double weight = 1.0 / std::max(std::abs(share - 1.0), near);
      for (std::size_t i = 0; i < count; ++i) {
        const double slope = weight * share * slopes[i][row];
        for (std::size_t j = 0; j < count; ++j) equations[i][j] += slope * share * slopes[j][row];
        equations[i][count] -= slope * (share - 1.0);
      }
    }
    return solved(std::move(equations));
  }

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
  const KernelRows& rows_;
  std::vector<std::string> names_;
  KernelConstants found_;
  double error_;
};

}  // namespace

MeasuredPrices::MeasuredPrices(const Device& device, const KernelConstants& constants) {
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    Device& measured = devices_.at(i).in_run;
    measured = device;
    measured.kernels = &constants;
    measured.launch_s = 0.0;
    measured.software = i < kOneLibrary.size() ? &kOneLibrary.at(i) : nullptr;
    devices_.at(i).in_burst = measured;
    devices_.at(i).in_burst.clock_share =
        device.clock_share.peek() / constants.sustained_share.value;
  }
}

double MeasuredPrices::seconds(const KernelMeasurement& row) const {
  const std::size_t place =
      row.library ? static_cast<std::size_t>(*row.library) : kOneLibrary.size();
  const Devices& devices = devices_.at(place);
  return (row.is_burst ? devices.in_burst : devices.in_run).price(row.work).seconds();
}

double mean_kernel_error(const Device& device, const KernelConstants& constants,
                         const KernelRows& rows) {
  const MeasuredPrices priced(device, constants);
  double sum = 0.0;
  for (const KernelMeasurement* row : rows) {
    sum += std::abs(priced.seconds(*row) / row->seconds - 1.0);
  }
  return rows.empty() ? 0.0 : sum / static_cast<double>(rows.size());
}

// The constant with the largest effect, then the one with the largest effect that the first could
// not have, and so on (Gram and Schmidt, with pivots).
std::vector<std::string> told_constants(const Device& device, const KernelConstants& constants,
                                        std::vector<std::string> names, const KernelRows& rows) {
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

KernelConstants search_constants(const Device& device, const KernelConstants& start,
                                 const std::vector<std::string>& names, const KernelRows& rows) {
  return ConstantSearch(device, rows, names, start).run();
}

}  // namespace shardsim
