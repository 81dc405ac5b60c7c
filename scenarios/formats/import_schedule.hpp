#pragma once

#include "scenarios/formats/import.hpp"
#include "scenarios/formats/import_request.hpp"

namespace shardsim {

/// `shardsim import schedule`: a scenario around a schedule as PyTorch's pipelining writes it. The
/// file stays where it is and is named by parallelism.schedule_file. Throws ScenarioError E1368
/// with the cells that cannot be read.
void import_schedule(const ImportRequest& request, Import& import);

}  // namespace shardsim
