#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/formats/import.hpp"
#include "scenarios/formats/megatron_arguments.hpp"

namespace shardsim {

/// The model section. Returns the parts of it that no scenario can express.
[[nodiscard]] std::vector<std::string> import_megatron_model(MegatronArguments& arguments,
                                                             const MegatronRun& run,
                                                             Import& import);

/// tp, pp, cp, ep, the data-parallel ranks that `gpus` leave, schedule, sharding and overlap.
/// Throws ScenarioError E1362 if the degrees do not divide the GPUs.
void import_megatron_layout(MegatronArguments& arguments, std::int64_t gpus, Import& import);

/// Whether gradients are accumulated and reduced in fp32, for any dtype of the parameters.
[[nodiscard]] bool reduces_in_fp32(MegatronArguments& arguments);

/// Batch, precision, optimizer, recomputation.
void import_megatron_training(MegatronArguments& arguments, Import& import);

/// Limits that no scenario can state: an optimizer that is not implemented here.
[[nodiscard]] std::vector<std::string> megatron_training_limits(MegatronArguments& arguments);

/// Adds rows for the arguments that no other row has read. Arguments that change cost, memory or
/// numbers need a decision by the user, as do unknown flags of a command line.
/// REQUIRES: all other rows are read.
void tell_unread_megatron(const MegatronArguments& arguments, Import& import);

}  // namespace shardsim
