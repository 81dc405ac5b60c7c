#pragma once

#include <cstddef>
#include <string>

#include "backends/rendezvous/launch_environment.hpp"

#include "sim/sweep/part_file.hpp"

// The points of a sweep that belong to this process: point k is in shard i of n if k mod n is i.
// Scripts start all processes on many cores or machines, and merge their parts.
namespace shardsim {

struct Shard {
  std::size_t index = 0;
  std::size_t count = 1;
  std::string source;  ///< Origin: "--shard", "a Slurm array", "openmpi"; empty: none.

  [[nodiscard]] bool has(std::size_t point) const { return point % count == index; }
  /// The number of points of [0, num_points) in this shard.
  [[nodiscard]] std::size_t share_of(std::size_t num_points) const {
    return num_points / count + (num_points % count > index ? 1 : 0);
  }
};

/// "i/n", or "auto": the variables of a Slurm array or of this process's launcher, in that order.
/// If several launchers started more than one process, all must agree. Throws UsageError: E1313 for
/// another text or variables that make no sense, E1314 for launchers that disagree.
[[nodiscard]] Shard shard_of(const std::string& text,
                             const EnvironmentLookup& lookup = lookup_environment);

struct ScriptSetting {
  std::string kind;    ///< "slurm", "parallel" or "make".
  std::string folder;  ///< The folder of the parts.
  std::size_t shards = 1;
};

[[nodiscard]] std::string script_of(const PartHeader& header, const ScriptSetting& setting);

/// As many tasks as are worth their start, unless the user gives a number.
[[nodiscard]] std::size_t default_shards(std::size_t num_points);

}  // namespace shardsim
