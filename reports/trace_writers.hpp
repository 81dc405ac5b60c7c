#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/kernel/time.hpp"
#include "sim/kernel/trace.hpp"

// Traces of a run for viewers, in two formats. Perfetto's (https://ui.perfetto.dev opens the file)
// has one process per rank, one thread track per stream, and one counter track per memory category
// in use. The older JSON format ("Trace Event Format", Google, 2016) is what chrome://tracing and
// many scripts read: twice the size, the same content. Ranks, streams and virtual time are mapped
// to processes, threads and nanoseconds alike.
namespace shardsim {

/// Whole nanoseconds, the resolution of trace viewers: to the nearest, halves up. Rounding never
/// swaps two times, so order and nesting remain. An operation shorter than half a nanosecond may be
/// shown as 0 long. REQUIRES: not negative.
[[nodiscard]] constexpr std::int64_t to_nanoseconds(Time time) {
  const std::int64_t picoseconds = time.picoseconds();
  return picoseconds / 1000 + (picoseconds % 1000 >= 500 ? 1 : 0);
}

/// Viewers keep process 0 for the idle task, so ranks count from 1 there.
[[nodiscard]] constexpr std::int32_t process_of(int rank) { return rank + 1; }

/// Unique in the whole trace. The first stream (compute) is the process's main thread, which
/// viewers list first. REQUIRES: fewer than a million ranks and 2,000 streams each.
[[nodiscard]] constexpr std::int32_t thread_of(int rank, std::size_t stream) {
  return process_of(rank) + static_cast<std::int32_t>(stream) * 1'000'000;
}

/// A serialized `perfetto.protos.Trace`. Equal traces give equal bytes.
///
/// Times are whole nanoseconds (to_nanoseconds). Slices carry
/// `bytes`, `label` and `operation` as debug annotations where they have them; `operation` is the
/// same on all members of one collective. Names are escaped as on a terminal, so they are always
/// valid UTF-8.
///
/// REQUIRES: times are not negative; slices of a track do not overlap and are in order of time;
/// ranks differ from each other.
[[nodiscard]] std::string to_perfetto(const std::vector<RankTrace>& traces);

/// Processes, threads, names, rounding and REQUIRES as in `to_perfetto`. A slice is a pair of begin
/// and end events. Readers turn durations with decimals into whole nanoseconds, and only equal
/// texts surely become equal times. One event a line.
[[nodiscard]] std::string to_chrome_json(const std::vector<RankTrace>& traces);

}  // namespace shardsim
