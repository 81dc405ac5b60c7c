#pragma once

#include <compare>
#include <cstdint>

#include "sim/kernel/error.hpp"

// Virtual time: whole picoseconds in 64 bits (106 days). Integers make sums exact, so that a
// step's parts add up to the step and two compilers agree to the last digit.
namespace shardsim {

/// For rates and costs that people give by the hour.
inline constexpr double kSecondsPerHour = 3600.0;

/// A point in virtual time or a duration, in picoseconds. Arithmetic is checked: a result outside
/// the range throws LimitError instead of wrapping.
class Time {
 public:
  constexpr Time() = default;
  static constexpr Time from_picoseconds(std::int64_t picoseconds) { return Time(picoseconds); }
  /// Rounds a price in seconds once, half away from zero. REQUIRES: finite and not negative.
  static Time from_seconds(double seconds);

  [[nodiscard]] constexpr std::int64_t picoseconds() const { return picoseconds_; }
  /// Seconds for people and result files; never used to compute a time.
  [[nodiscard]] constexpr double seconds() const {
    return static_cast<double>(picoseconds_) / 1e12;
  }

  friend constexpr auto operator<=>(Time, Time) = default;
  friend constexpr Time operator+(Time a, Time b) {
    std::int64_t sum = 0;
    if (__builtin_add_overflow(a.picoseconds_, b.picoseconds_, &sum)) throw_overflow();
    return Time(sum);
  }
  friend constexpr Time operator-(Time a, Time b) {
    std::int64_t difference = 0;
    if (__builtin_sub_overflow(a.picoseconds_, b.picoseconds_, &difference)) throw_overflow();
    return Time(difference);
  }
  constexpr Time& operator+=(Time other) { return *this = *this + other; }
  constexpr Time& operator-=(Time other) { return *this = *this - other; }

 private:
  explicit constexpr Time(std::int64_t picoseconds) : picoseconds_(picoseconds) {}
  [[noreturn]] static void throw_overflow();

  std::int64_t picoseconds_ = 0;
};

[[nodiscard]] constexpr Time max(Time a, Time b) { return a < b ? b : a; }
[[nodiscard]] constexpr Time min(Time a, Time b) { return b < a ? b : a; }

}  // namespace shardsim
