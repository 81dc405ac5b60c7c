#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "sim/console/verb.hpp"
#include "sim/sweep/sweep_plan.hpp"

namespace shardsim {

struct SweepArguments {
  SweepRequest request;
  std::string shard = "0/1";
  std::string folder;      ///< Empty: the file's name with .sweep, in the current folder.
  int jobs = 0;            ///< 0: as many as there are cores.
  std::string time_limit;  ///< "90s", "10m", "2h"; empty: none.
  std::string format;      ///< "ndjson" or "csv": print the rows instead of the summary.
  std::string emit;        ///< "slurm", "parallel" or "make".
  std::size_t shards = 0;  ///< For --emit; 0: a fitting number.
  bool list = false;
  bool quiet = false;
};

/// `shardsim sweep FILE`: computes the missing points, and keeps each as it ends. Returns 0 also if
/// points are invalid or do not fit: these are findings. Returns 130 after Ctrl-C. Throws Error.
int command_sweep(const SweepArguments& arguments, const Console& console);

[[nodiscard]] Verb sweep_verb();

}  // namespace shardsim
