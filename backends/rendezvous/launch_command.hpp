#pragma once

#include <string>
#include <vector>

#include "backends/rendezvous/process_launcher.hpp"

// The two ways in which shardsim starts the ranks of a run itself.
namespace shardsim {

struct RankLaunch {
  int world_size = 1;
  std::vector<std::string> argv;  ///< Command line of each rank, the program first.
  std::string rendezvous;         ///< "HOST:PORT".
  std::string token;
  std::string preload;  ///< A library that mpirun preloads into itself and the ranks, or "".
};

/// One mpirun that starts all ranks on this machine: over loopback sockets only, so that bytes can
/// be counted there, with launch.preload before the user's own libraries, and with more ranks than
/// cores if need be. As root, too (in containers).
[[nodiscard]] ProcessCommand mpirun_command(const RankLaunch& launch, bool as_root);

/// Rank `rank` as a process of its own, told so by SHARDSIM_RANK and its like.
[[nodiscard]] ProcessCommand plain_rank_command(const RankLaunch& launch, int rank);

}  // namespace shardsim
