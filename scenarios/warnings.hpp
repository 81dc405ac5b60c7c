#pragma once

#include "scenarios/reading.hpp"

// Warnings about valid scenarios: fields without effect, a schedule without its chunks, and numbers
// that lose more than the training's own precision.
namespace shardsim {

/// Appends to scenario.warnings. A field without effect is named only if somebody chose it.
/// REQUIRES: resolve() found no problem, and scenario.chosen is filled.
void warn(Reading& reading);

}  // namespace shardsim
