#pragma once

#include <cstddef>
#include <string>

#include "backends/rendezvous/launch_environment.hpp"

// Which points of a sweep are this process's: point k is shard i's of n when k mod n is i.
namespace shardsim {

struct Shard {
  std::size_t index = 0;
  std::size_t count = 1;
  std::string source;  ///< Who says so: "--shard", "a Slurm array", "openmpi"; empty: nobody.

  [[nodiscard]] bool has(std::size_t point) const { return point % count == index; }
  /// Points of [0, num_points) that are this shard's.
  [[nodiscard]] std::size_t share_of(std::size_t num_points) const {
    return num_points / count + (num_points % count > index ? 1 : 0);
  }
};

/// "i/n", or "auto": what a Slurm array or the launcher of this process says, in that order. Of
/// several launchers that all started more than one process, all must say the same. Throws
/// UsageError: E1313 for another text or variables that make no sense, E1314 for launchers that
/// disagree.
[[nodiscard]] Shard shard_of(const std::string& text,
                             const EnvironmentLookup& lookup = lookup_environment);

}  // namespace shardsim
