#pragma once

#include <string>

#include "backends/rendezvous/launch_environment.hpp"

namespace shardsim {

/// Where a rank that some launcher has started meets the others.
struct MeetingPoint {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;  ///< Among the ranks of this machine; as `rank` where nobody says.
  int local_size = 1;
  std::string host;
  int port = 0;
  std::string token;
  /// By the shardsim that has started the ranks; else rank 0 serves.
  bool served_by_launcher = false;
};

/// From the launcher's words, and SHARDSIM_TOKEN or SHARDSIM_TOKEN_FILE. Where all ranks are on one
/// machine and Open MPI has started them, nothing needs to be said: place and token follow from the
/// secret that it gives the processes of a job. Throws Error (exit 5) where something must be said.
[[nodiscard]] MeetingPoint meeting_point_of(const LaunchedRank& launched,
                                            const EnvironmentLookup& lookup = lookup_environment);

}  // namespace shardsim
