#pragma once

#include "sim/app/desk/exchange/import.hpp"
#include "sim/app/desk/exchange/import_request.hpp"

namespace shardsim {

/// `shardsim import megatron`: from a run's log, which tells all arguments, or from a launch
/// script. What the run measured becomes rows of the table. Throws ScenarioError and UsageError.
void import_megatron(const ImportRequest& request, Import& import);

}  // namespace shardsim
