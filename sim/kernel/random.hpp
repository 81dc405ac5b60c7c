#pragma once

#include <array>
#include <cstdint>
#include <string_view>

// Counter-based random numbers: a value is a pure function of (seed, name, index). So an initial
// weight or a training token depends neither on the rank that draws it nor on the order.
namespace shardsim {

/// Four words from four words of counter and two of key: Philox4x32-10. Source: Salmon et al.,
/// "Parallel Random Numbers: As Easy as 1, 2, 3" (SC11).
using PhiloxBlock = std::array<std::uint32_t, 4>;
[[nodiscard]] PhiloxBlock philox4x32(PhiloxBlock counter, std::uint32_t key0, std::uint32_t key1);

/// A stream of independent draws named by what they are for ("block3.attention.wq").
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::string_view name);

  /// 64 uniform bits for `index`.
  [[nodiscard]] std::uint64_t bits(std::uint64_t index) const;
  /// Uniform in [0, 1) with 53 bits.
  [[nodiscard]] double uniform(std::uint64_t index) const;
  /// Uniform integer in [0, bound). REQUIRES: bound > 0.
  [[nodiscard]] std::uint64_t below(std::uint64_t index, std::uint64_t bound) const;
  /// Mean 0, variance 1: the sum of twelve uniforms less six (Irwin-Hall). Not an exact normal, but
  /// exact arithmetic: the same bits on every compiler, which log and cos do not promise.
  [[nodiscard]] double bell(std::uint64_t index) const;

 private:
  std::uint64_t key_;
};

/// The next of a sequence of 64 uniform bits, for many draws in a row: SplitMix64. Source: Steele,
/// Lea, Flood, "Fast Splittable Pseudorandom Number Generators" (OOPSLA 2014).
class DrawSequence {
 public:
  explicit DrawSequence(std::uint64_t key) : state_(key) {}

  [[nodiscard]] std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t bits = state_;
    bits = (bits ^ (bits >> 30U)) * 0xBF58476D1CE4E5B9U;
    bits = (bits ^ (bits >> 27U)) * 0x94D049BB133111EBU;
    return bits ^ (bits >> 31U);
  }

 private:
  std::uint64_t state_;
};

}  // namespace shardsim
