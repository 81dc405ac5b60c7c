#pragma once

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/import.hpp"

namespace shardsim {

/// The parallelism section; returns the data-parallel ranks. Throws ScenarioError E1366.
std::int64_t write_titan_layout(ForeignObject& parallelism, std::int64_t gpus, Import& import);

/// Precision and the clipping of gradients.
void write_titan_training(ForeignObject& training, Import& import);

/// optimizer and activation_checkpoint.
void write_titan_rest(ForeignObject& root, Import& import);

}  // namespace shardsim
