#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "sim/kernel/memory_replay.hpp"

#include "backends/program/program_tables.hpp"

namespace shardsim {

/// The device memory that a program's allocations take.
struct ProgramMemory {
  DeviceMemoryUse use;        ///< The peak's time is not known here:
  std::size_t peak_step = 0;  ///< it is that of this step.
};

/// The memory of programs with the same tables. Programs whose allocations are equal, whatever else
/// they do, take the same memory, which is found once.
class ProgramMemories {
 public:
  /// `program` outlives this. Throws LimitError (E0314).
  [[nodiscard]] ProgramMemory find(const RankProgram& program, const DeviceRoom& room);

 private:
  struct Found {
    DeviceMemoryUse use;
    std::size_t peak_change = 0;  // Which of the allocations and releases.
  };
  struct Known {
    const RankProgram& program;
    std::map<DeviceRoom, Found> found;
  };
  [[nodiscard]] static Found replay(const RankProgram& program, const DeviceRoom& room);
  [[nodiscard]] Known& known_of(const RankProgram& program);

  std::multimap<std::uint64_t, Known> known_;  // By a hash of the allocations.
};

}  // namespace shardsim
