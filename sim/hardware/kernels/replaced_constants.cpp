#include "sim/hardware/kernels/replaced_constants.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>

#include <fmt/format.h>

namespace shardsim {

namespace {

struct LimitsRow {
  std::string_view ending;
  ConstantLimits limits;
};

// The first ending that fits holds. A GPU has no products in fewer bits where their share is 0; the
// share is over that of 16 bits, and so may exceed 1. Rates of attention are of endless heads,
// which no kernel has; 0: the GPU has no rows of the library.
constexpr std::array<LimitsRow, 14> kLimits = {{
    {"multiprocessors", {1.0, 1e5, false, true, 1.0}},
    {"fp8_share", {0.0, 2.0, false, false, 0.5}},
    {"fp8_block_share", {0.0, 2.0, false, false, 0.5}},
    {"fp4_share", {0.0, 2.0, false, false, 0.5}},
    {"_share", {0.0, 1.0, true, false, 0.5}},
    {"forward_rate", {0.0, 2.0, false, false, 0.5}},
    {"backward_rate", {0.0, 2.0, false, false, 0.5}},
    {"_rate", {0.0, 1.0, true, false, 0.5}},
    {"_exposed", {0.0, 1.0, false, false, 0.1}},
    {"_tail", {0.0, 100.0, false, false, 0.1}},
    {"_halving", {0.0, 1e5, false, false, 5.0}},
    {"_s", {0.0, 1.0, false, false, 1e-6}},
    {"beside_communication", {0.0, 10.0, false, false, 0.1}},
    {"", {0.0, 1e6, false, false, 0.1}},
}};

// The texts that the sources of its constants are.
struct OwnedConstants {
  KernelConstants constants;
  std::deque<std::string> sources;
};

}  // namespace

bool ConstantLimits::allow(double value) const {
  const bool is_above = above_least ? value > least : value >= least;
  return is_above && value <= most && (!is_whole || value == std::floor(value));
}

std::string ConstantLimits::words() const {
  return fmt::format("{} {} {} {} {}", is_whole ? "a whole number" : "a number",
                     above_least ? "above" : "from", least, above_least ? "and at most" : "to",
                     most);
}

ConstantLimits limits_of_constant(std::string_view name) {
  return std::ranges::find_if(kLimits,
                              [&](const LimitsRow& row) { return name.ends_with(row.ending); })
      ->limits;
}

void set_constant(KernelConstants& constants, std::string_view name, double value) {
  find_constant(constants, name)->value = value;
}

double constant_of(const KernelConstants& constants, std::string_view name) {
  KernelConstants copy = constants;
  return find_constant(copy, name)->value;
}

std::shared_ptr<const KernelConstants> replaced_constants(
    const KernelConstants& base, const std::vector<ReplacedConstant>& replaced) {
  const auto owned = std::make_shared<OwnedConstants>();
  owned->constants = base;
  for (const ReplacedConstant& each : replaced) {
    const std::string& source = owned->sources.emplace_back(each.source);
    *find_constant(owned->constants, each.name) = {each.value, source.c_str()};
  }
  return {owned, &owned->constants};
}

}  // namespace shardsim
