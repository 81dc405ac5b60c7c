#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/diff/run_side.hpp"

namespace shardsim::test {

/// In the formats of Megatron-LM's training_log and report_memory, and of PyTorch's profiler.
inline constexpr const char* kLog = "tests/diff/data/megatron.log";
inline constexpr const char* kTrace = "tests/diff/data/rank5.pt.trace.json";

/// A run that tells its step and these parts, and nothing else.
inline RunSide made_side(std::int64_t step_ps, std::vector<Part> time) {
  RunSide made;
  made.step_ps = step_ps;
  made.time = std::move(time);
  return made;
}

}  // namespace shardsim::test
