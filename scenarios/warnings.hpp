#pragma once

#include "scenarios/reading.hpp"

// What a scenario may say and still be told about: fields that have no effect as the others stand,
// a schedule without the chunks that are its point, and numbers that lose more than the training's
// own precision does.
namespace shardsim {

/// Appends to scenario.warnings. A field without effect is named only if somebody chose it.
/// REQUIRES: resolve() found no problem, and scenario.chosen is filled.
void warn(Reading& reading);

}  // namespace shardsim
