#pragma once

#include "sim/console/verb.hpp"

namespace shardsim {

/// `shardsim presets [NAME]`: lists models and systems, or shows one with its sources.
[[nodiscard]] Verb presets_verb();
/// `shardsim schema [scenario|result]`: the JSON Schema of what the command reads or writes.
[[nodiscard]] Verb schema_verb();

}  // namespace shardsim
