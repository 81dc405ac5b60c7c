#pragma once

#include <cstddef>
#include <cstdint>

#include "scenarios/load.hpp"

// Limits of one client of `shardsim serve`, so that none can hold the process.
namespace shardsim {

struct ServeLimits {
  std::size_t max_header_bytes = std::size_t{16} << 10U;
  std::size_t max_body_bytes = std::size_t{1} << 20U;
  int receive_s = 5;                 ///< For a whole request, and for a whole answer.
  std::size_t max_connections = 64;  ///< One without the token leaves for the next.
  std::size_t max_waiting = 32;      ///< Requests that wait for a worker.
  int run_s = 20;                    ///< For one simulation.
  int search_s = 60;                 ///< For one search.
  /// Layers x microbatches x steps. A rank records about a kilobyte of each.
  std::int64_t max_layer_passes = 200'000;
  /// Runs of so many layer passes take a moment, and need not wait for longer ones. Without a
  /// recording (execution.engine "run") the passes of all ranks count.
  std::int64_t max_short_passes = 12'000;
  /// The limits of a scenario. Folded and replayed ranks are cheap, and may be many.
  LoadLimits scenario{.max_ranks = 256, .max_plan_ranks = 65'536, .max_operations = 50'000'000};
};

}  // namespace shardsim
