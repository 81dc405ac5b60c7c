#pragma once

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/import.hpp"

namespace shardsim {

/// bf16, fp16 and the loss scale.
void write_ds_precision(ForeignObject& config, Import& import);

/// zero_optimization: stage, offload, buckets, hpZ. REQUIRES: the precision is written.
void write_ds_sharding(ForeignObject& config, Import& import);

/// optimizer, gradient_clipping, activation_checkpointing.
void write_ds_optimizer(ForeignObject& config, Import& import);

}  // namespace shardsim
