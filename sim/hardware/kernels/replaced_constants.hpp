#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/hardware/kernels/kernel_constants.hpp"

// A GPU's constants, some of which are replaced by name: those of a machine that was measured
// (docs/decisions/0090-kernel-calibration.md).
namespace shardsim {

/// The values that a constant may have, and where a search for a value of 0 begins.
struct ConstantLimits {
  double least = 0.0;
  double most = 0.0;
  bool above_least = false;  ///< `least` itself is not allowed.
  bool is_whole = false;
  double first_step = 0.0;

  [[nodiscard]] bool allow(double value) const;
  /// "a number above 0 and at most 1".
  [[nodiscard]] std::string words() const;
};

/// By the last words of the name, so that a new constant has limits.
/// REQUIRES: a name of constants_of().
[[nodiscard]] ConstantLimits limits_of_constant(std::string_view name);

struct ReplacedConstant {
  std::string name;
  double value = 0.0;
  std::string source;
};

/// REQUIRES: a name of constants_of().
void set_constant(KernelConstants& constants, std::string_view name, double value);
[[nodiscard]] double constant_of(const KernelConstants& constants, std::string_view name);

/// Constants of their own, which keep the sources; those that are not replaced are `base`'s.
/// REQUIRES: names of constants_of().
[[nodiscard]] std::shared_ptr<const KernelConstants> replaced_constants(
    const KernelConstants& base, const std::vector<ReplacedConstant>& replaced);

}  // namespace shardsim
