#include "backends/stochastic_rounding.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "sim/kernel/hash.hpp"

namespace shardsim {

namespace {

const StochasticRounding*& active_rounding() {
  thread_local const StochasticRounding* active = nullptr;
  return active;
}

// A number so near to one of the format, in spacings, is that one but for the last bits of a
// double.
constexpr double kSame = 0x1p-20;

std::uint64_t bits_of(std::uint64_t seed, double value) {
  RollingHash hash;
  hash.add(seed);
  hash.add(std::bit_cast<std::uint64_t>(value));
  return hash.value();
}

bool is_rounded(double value, DType dtype) {
  const bool has_neighbours = dtype == DType::fp32 || dtype == DType::bf16 || dtype == DType::fp16;
  return has_neighbours && value != 0.0 && std::isfinite(value);
}

}  // namespace

double SumRoundings::of(SumOver sum) const {
  return std::array{tensor_ranks, bias, query_shares, key_blocks, expert_slices, expert_ranks}
      [static_cast<std::size_t>(sum)];
}

bool SumRoundings::any() const {
  return tensor_ranks > 0.0 || query_shares > 0.0 || expert_slices > 0.0 || expert_ranks > 0.0;
}

StochasticRounding::StochasticRounding(std::uint64_t seed, const SumRoundings& more)
    : seed_(seed), more_(more), before_(active_rounding()) {
  active_rounding() = this;
}

StochasticRounding::~StochasticRounding() { active_rounding() = before_; }

const StochasticRounding* StochasticRounding::active() { return active_rounding(); }

double StochasticRounding::round(double value, DType dtype) const {
  if (!is_rounded(value, dtype)) return value;
  const double size = std::fabs(value);
  const double spacing = spacing_at(size, dtype);
  const double units = size / spacing;
  // They fit: a format has at most 24 bits. And std::floor would be a call.
  const auto below = static_cast<double>(static_cast<std::int64_t>(units));
  const double above = units - below;
  // A coin decides, so the processor must not guess it: a sum, not a branch.
  auto step = static_cast<double>(bits_of(seed_, size) >> 63U);
  if (above < kSame) step = 0.0;
  if (above > 1.0 - kSame) step = 1.0;
  return std::copysign((below + step) * spacing, value);
}

double StochasticRounding::round_more(double value, DType dtype, SumOver sum) const {
  if (!is_rounded(value, dtype)) return value;
  const double size = std::fabs(value);
  const double spacing = spacing_at(size, dtype);
  double left = more_.of(sum);
  double moved = value;
  for (std::uint64_t number = 1; left > 0.0; ++number, left -= 1.0) {
    const std::uint64_t bits = bits_of(seed_ + number, size);
    const double chance = static_cast<double>(bits >> 12U) * 0x1p-52;
    if (chance >= std::min(left, 1.0) / 2.0) continue;
    const double step = (bits & 1U) != 0 ? spacing : -spacing;
    moved += value > 0.0 ? step : -step;
  }
  return moved;
}

}  // namespace shardsim
