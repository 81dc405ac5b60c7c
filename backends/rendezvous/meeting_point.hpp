#pragma once

#include <string>

#include "sim/kernel/error.hpp"

#include "backends/rendezvous/launch_environment.hpp"

namespace shardsim {

class RendezvousClient;

/// The place where a rank that a launcher has started meets the others.
struct MeetingPoint {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;  ///< Among the ranks of this machine; as `rank` if unknown.
  int local_size = 1;
  std::string host;
  int port = 0;
  std::string token;
  /// The process of the shardsim that started the ranks and serves. 0: rank 0 serves.
  int launcher = 0;
};

/// From the launcher's variables, and SHARDSIM_TOKEN or SHARDSIM_TOKEN_FILE. If Open MPI has
/// started all ranks on one machine, no variable is needed: place and token follow from the secret
/// that it gives the processes of a job. Throws Error (exit 5) if a variable is missing.
[[nodiscard]] MeetingPoint meeting_point_of(const LaunchedRank& launched,
                                            const EnvironmentLookup& lookup = lookup_environment);

/// Reports why a rank gives up, and returns the exit code of the run's verdict once rank 0 has had
/// time to report it.
[[nodiscard]] ExitCode give_up_run(RendezvousClient& client, const MeetingPoint& place,
                                   const Error& error);

}  // namespace shardsim
