#pragma once

#include <string>

// The field table told to others: to editors as a JSON Schema, to people as a page.
// Both are shipped as files, and a test holds them equal to what is generated here.
namespace shardsim {

/// JSON Schema, draft-07, of a scenario file. A schema cannot say everything: what more than one
/// field decides (ranks, batch, heads) is checked by the loader alone.
std::string scenario_schema();

/// docs/guide/scenario-reference.md.
std::string scenario_reference();

}  // namespace shardsim
