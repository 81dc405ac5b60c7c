#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/kernel/memory_replay.hpp"

#include "backends/program/program_tables.hpp"

namespace shardsim {

/// The device memory that a program's allocations take.
struct ProgramMemory {
  DeviceMemoryUse use;        ///< The peak's time is not known here:
  std::size_t peak_step = 0;  ///< it is that of this step.
};

/// `capacity`, `outside`: as LimitedDevice. Throws LimitError (E0314).
[[nodiscard]] ProgramMemory memory_of(const RankProgram& program, std::int64_t capacity,
                                      std::int64_t outside);

}  // namespace shardsim
