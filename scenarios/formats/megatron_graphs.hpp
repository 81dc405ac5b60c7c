#pragma once

#include "scenarios/formats/emit_flags.hpp"
#include "scenarios/formats/megatron.hpp"
#include "scenarios/scenario.hpp"

// CUDA graphs of Megatron-LM, both ways.
namespace shardsim {

/// REQUIRES: the model is imported.
void import_megatron_graphs(MegatronArguments& arguments, Import& import);
void add_graphs(const Scenario& scenario, Flags& flags);

}  // namespace shardsim
