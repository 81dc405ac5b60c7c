#pragma once

#include <cstdint>

#include "sim/kernel/time.hpp"

// Times and sizes as tests write them down.
namespace shardsim::test {

inline constexpr std::int64_t kMiB = std::int64_t{1} << 20U;

inline Time ps(std::int64_t picoseconds) { return Time::from_picoseconds(picoseconds); }
inline Time ns(double nanoseconds) { return Time::from_seconds(nanoseconds * 1e-9); }
inline Time us(double microseconds) { return Time::from_seconds(microseconds * 1e-6); }

}  // namespace shardsim::test
