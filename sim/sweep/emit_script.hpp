#pragma once

#include <cstddef>
#include <string>

#include "sim/sweep/part_file.hpp"

// Scripts that run a sweep on many cores or machines, and merge it.
namespace shardsim {

struct ScriptSetting {
  std::string kind;    ///< "slurm", "parallel" or "make".
  std::string folder;  ///< The folder of the parts.
  std::size_t shards = 1;
};

[[nodiscard]] std::string script_of(const PartHeader& header, const ScriptSetting& setting);

/// As many tasks as are worth their start, unless the user gives a number.
[[nodiscard]] std::size_t default_shards(std::size_t num_points);

}  // namespace shardsim
