#pragma once

#include "scenarios/formats/import.hpp"
#include "scenarios/formats/import_request.hpp"

namespace shardsim {

/// `shardsim import megatron`: reads a run's log, which has all arguments, or a launch script. The
/// run's measurements become rows of the table. Throws ScenarioError and UsageError.
void import_megatron(const ImportRequest& request, Import& import);

}  // namespace shardsim
