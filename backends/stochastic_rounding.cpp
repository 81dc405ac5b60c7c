#include "backends/stochastic_rounding.hpp"

#include <bit>
#include <cmath>

#include "sim/kernel/hash.hpp"
#include "sim/kernel/rounding.hpp"

namespace shardsim {

namespace {

const StochasticRounding*& active_rounding() {
  thread_local const StochasticRounding* active = nullptr;
  return active;
}

// A number so near to one of the format, in spacings, is that one but for the last bits of a
// double.
constexpr double kSame = 0x1p-20;

bool draw(std::uint64_t seed, double value) {
  RollingHash hash;
  hash.add(seed);
  hash.add(std::bit_cast<std::uint64_t>(value));
  return (hash.value() >> 63U) != 0;
}

}  // namespace

StochasticRounding::StochasticRounding(std::uint64_t seed)
    : seed_(seed), before_(active_rounding()) {
  active_rounding() = this;
}

StochasticRounding::~StochasticRounding() { active_rounding() = before_; }

const StochasticRounding* StochasticRounding::active() { return active_rounding(); }

double StochasticRounding::round(double value, DType dtype) const {
  const bool has_neighbours = dtype == DType::fp32 || dtype == DType::bf16 || dtype == DType::fp16;
  if (!has_neighbours || value == 0.0 || !std::isfinite(value)) return value;
  const double size = std::fabs(value);
  const double spacing = spacing_at(size, dtype);
  const double below = std::floor(size / spacing);
  const double above = size / spacing - below;
  const bool is_up = above < kSame || above > 1.0 - kSame ? above > 0.5 : draw(seed_, size);
  return std::copysign((is_up ? below + 1.0 : below) * spacing, value);
}

}  // namespace shardsim
