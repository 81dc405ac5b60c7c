#pragma once

#include "scenarios/formats/import.hpp"
#include "scenarios/formats/import_request.hpp"

namespace shardsim {

/// `shardsim import deepspeed`: ds_config.json, which gives neither the model (--model) nor the
/// machine. Throws ScenarioError (E1364: microbatch x accumulation x ranks is not the batch) and
/// UsageError (E1365: no model).
void import_deepspeed(const ImportRequest& request, Import& import);

}  // namespace shardsim
