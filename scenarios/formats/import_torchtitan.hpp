#pragma once

#include "scenarios/formats/import.hpp"
#include "scenarios/formats/import_request.hpp"

namespace shardsim {

/// `shardsim import torchtitan`: the configuration that a run has saved as JSON
/// (--job.save_config_file, later --debug.save_config_file). Throws ScenarioError (E1366: degrees
/// do not divide the GPUs, or batches the ranks) and UsageError (E1367: an unknown flavor).
void import_torchtitan(const ImportRequest& request, Import& import);

}  // namespace shardsim
