#pragma once

#include "scenarios/reading.hpp"

// What a scenario may say and still be told about: fields that have no effect as the others stand,
// a schedule without the chunks that are its point, and numbers that lose more than the training's
// own precision does.
namespace shardsim {

/// Appends to scenario.warnings. A field of which nothing depends is named only if the user wrote
/// it, in the file or by a flag; what a preset brings along is no news.
/// REQUIRES: resolve() found no problem.
void warn(Reading& reading);

}  // namespace shardsim
