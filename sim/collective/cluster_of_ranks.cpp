#include <algorithm>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "scenarios/system_scenario.hpp"
#include "sim/collective/collective_setting.hpp"
#include "sim/experiment/experiment.hpp"

namespace shardsim {

Cluster cluster_of_ranks(const std::string& system, int ranks, int nodes,
                         const std::vector<std::string>& overrides) {
  Cluster cluster = compile(scenario_of_system(system, overrides)).cluster();
  if (nodes == 0) nodes = (ranks + cluster.gpus_per_node - 1) / cluster.gpus_per_node;
  if (ranks % nodes != 0 || ranks / nodes > cluster.gpus_per_node) {
    throw no_such_machine(
        fmt::format("{} ranks do not lie evenly on {} nodes of {} with {} GPUs each", ranks, nodes,
                    cluster.name, cluster.gpus_per_node),
        "change --ranks or --nodes, so that every node has equally many");
  }
  cluster.num_nodes = nodes;
  // Fewer GPUs come with their own network cards only.
  if (cluster.nics_per_node > 0) {
    cluster.nics_per_node =
        std::max(1, cluster.nics_per_node * (ranks / nodes) / cluster.gpus_per_node);
  }
  cluster.gpus_per_node = ranks / nodes;
  return cluster;
}

}  // namespace shardsim
