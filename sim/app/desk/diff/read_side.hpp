#pragma once

#include <string>
#include <vector>

#include "sim/app/desk/diff/run_side.hpp"
#include "sim/app/run.hpp"

// From a file of any kind that `shardsim diff` takes to a run.
namespace shardsim {

/// The path is of a result.json, a scenario (which is run, with the overrides), the log of a
/// Megatron-LM run, or a PyTorch profiler's trace. Throws ScenarioError for a scenario that is
/// wrong, and UsageError for a file that is none of these (E1341) or tells no step time (E1342).
struct SideRequest {
  std::string path;
  std::vector<std::string> overrides;
  bool measured = false;  ///< Of a result: what was measured in it, if anything was.
};
[[nodiscard]] RunSide read_side(const SideRequest& request, const RunHooks& hooks);

/// Of a result as JSON.
[[nodiscard]] RunSide side_of_result(const std::string& json, const std::string& file,
                                     bool measured);

}  // namespace shardsim
