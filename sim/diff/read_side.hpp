#pragma once

#include <string>
#include <vector>

#include "sim/diff/run_side.hpp"
#include "sim/run/run.hpp"

// Makes a run from a file of any kind that `shardsim diff` takes.
namespace shardsim {

/// The path of a result.json, a scenario (which is run, with the overrides), a Megatron-LM run's
/// log, or a PyTorch profiler's trace. Throws ScenarioError for a wrong scenario, and UsageError
/// for a file that is none of these (E1341) or has no step time (E1342).
struct SideRequest {
  std::string path;
  std::vector<std::string> overrides;
  bool measured = false;  ///< For a result: its measured values, if it has any.
};
[[nodiscard]] RunSide read_side(const SideRequest& request, const RunHooks& hooks);

/// Makes a run from a result as JSON.
[[nodiscard]] RunSide side_of_result(const std::string& json, const std::string& file,
                                     bool measured);

}  // namespace shardsim
