#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/app/desk/exchange/import.hpp"
#include "sim/app/desk/exchange/megatron_arguments.hpp"

namespace shardsim {

/// The model section. Returns what of it no scenario can say.
[[nodiscard]] std::vector<std::string> import_megatron_model(MegatronArguments& arguments,
                                                             const MegatronRun& run,
                                                             Import& import);

/// tp, pp, cp, ep, the data-parallel ranks that `gpus` leave, schedule, sharding and overlap.
/// Throws ScenarioError E1362 where the degrees do not divide the GPUs.
void import_megatron_layout(MegatronArguments& arguments, std::int64_t gpus, Import& import);

/// Whether gradients are summed up and reduced in fp32, whatever the parameters are.
[[nodiscard]] bool reduces_in_fp32(MegatronArguments& arguments);

/// Batch, precision, optimizer, recomputation.
void import_megatron_training(MegatronArguments& arguments, Import& import);

/// What else no scenario can say: an optimizer that is not here.
[[nodiscard]] std::vector<std::string> megatron_training_limits(MegatronArguments& arguments);

/// Rows for the arguments that no one has asked for: those that change cost, memory or numbers need
/// somebody, as does every flag of a command line that is not known.
/// REQUIRES: all other rows are read.
void tell_unread_megatron(const MegatronArguments& arguments, Import& import);

}  // namespace shardsim
