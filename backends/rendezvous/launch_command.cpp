#include "backends/rendezvous/launch_command.hpp"

#include "backends/rendezvous/launch_environment.hpp"

namespace shardsim {

namespace {

// Ranks would take the user's token through this variable, not the token of this run.
constexpr const char* kOtherToken = "SHARDSIM_TOKEN_FILE";

}  // namespace

ProcessCommand mpirun_command(const RankLaunch& launch, bool as_root) {
  ProcessCommand command;
  command.argv = {"mpirun", "-n", std::to_string(launch.world_size), "--oversubscribe",
                  // Ranks that wait must let the others have the cores.
                  "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
                  // Sockets only: shared memory would pass the loopback counter by.
                  "--mca", "pml", "ob1,monitoring", "--mca", "btl", "tcp,self", "--mca",
                  "btl_tcp_if_include", "lo"};
  command.argv.insert(command.argv.end(), launch.argv.begin(), launch.argv.end());
  // On one machine Open MPI's ranks inherit mpirun's environment. The token stays out of argv,
  // which everyone on the machine can read.
  command.environment = {{"SHARDSIM_RENDEZVOUS", launch.rendezvous},
                         {"SHARDSIM_TOKEN", launch.token},
                         {"SHARDSIM_LAUNCHED", "1"}};
  command.without = {kOtherToken};
  if (!launch.preload.empty()) {
    const std::string others = lookup_environment("LD_PRELOAD").value_or("");
    command.environment.emplace_back("LD_PRELOAD",
                                     launch.preload + (others.empty() ? "" : ":" + others));
  }
  if (as_root) {
    command.environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT", "1");
    command.environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
  }
  return command;
}

ProcessCommand plain_rank_command(const RankLaunch& launch, int rank) {
  ProcessCommand command;
  command.argv = launch.argv;
  command.environment = {{"SHARDSIM_RANK", std::to_string(rank)},
                         {"SHARDSIM_WORLD_SIZE", std::to_string(launch.world_size)},
                         {"SHARDSIM_LOCAL_RANK", std::to_string(rank)},
                         {"SHARDSIM_LOCAL_SIZE", std::to_string(launch.world_size)},
                         {"SHARDSIM_RENDEZVOUS", launch.rendezvous},
                         {"SHARDSIM_TOKEN", launch.token},
                         {"SHARDSIM_LAUNCHED", "1"}};
  command.without = {kOtherToken};
  return command;
}

}  // namespace shardsim
