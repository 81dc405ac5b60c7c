#pragma once

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/import.hpp"

namespace shardsim {

/// The model section from the config.json of a GPT-2, and its dropout.
void import_gpt2(ForeignObject& config, Import& import);

}  // namespace shardsim
