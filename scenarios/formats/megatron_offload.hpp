#pragma once

#include "scenarios/formats/emit_flags.hpp"
#include "scenarios/formats/megatron.hpp"
#include "scenarios/scenario.hpp"

// Host memory in runs of Megatron-LM, both ways.
namespace shardsim {

/// Activations. REQUIRES: the layout is imported.
void import_megatron_offload(MegatronArguments& arguments, Import& import);
/// The flags of all that is there.
void add_offload(const Scenario& scenario, Flags& flags);

}  // namespace shardsim
