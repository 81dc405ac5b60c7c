#pragma once

#include <optional>
#include <string>

// The two list notations in which Slurm tells a job about its machines. Both functions return
// nothing where the text is not in that notation.
namespace shardsim {

/// "gpu003" of "gpu[003-006,9],login1".
[[nodiscard]] std::optional<std::string> first_slurm_node(const std::string& list);

/// Entry `node` of SLURM_TASKS_PER_NODE: 3 for node 2 of "4(x2),3".
[[nodiscard]] std::optional<int> slurm_tasks_on_node(const std::string& list, int node);

}  // namespace shardsim
