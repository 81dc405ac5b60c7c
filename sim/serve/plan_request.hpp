#pragma once

#include <string>

#include "sim/search/search_request.hpp"

// The words of a page that asks for the best layout.
namespace shardsim {

/// Reads {"model", "gpu", "gpus", "seq_len", "global_batch_size", "precision",
/// "usd_per_gpu_hour", "tokens"}; the first three are required. A model is a preset: no file is
/// read. Throws ScenarioError for what is no such object, and UsageError E0366 for a value.
[[nodiscard]] SearchRequest read_plan_request(const std::string& text);

}  // namespace shardsim
