#pragma once

#include "sim/app/desk/exchange/foreign_object.hpp"
#include "sim/app/desk/exchange/import.hpp"

namespace shardsim {

/// The model section from the config.json of a GPT-2, and its dropout.
void import_gpt2(ForeignObject& config, Import& import);

}  // namespace shardsim
