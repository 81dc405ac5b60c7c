#pragma once

#include <string>

// The field table for others: a JSON Schema for editors, a page for people. Both are shipped as
// files, and a test compares them with the output of this code.
namespace shardsim {

/// JSON Schema, draft-07, of a scenario file. A schema cannot say everything: the loader alone
/// checks rules about several fields (ranks, batch, heads).
std::string scenario_schema();

/// docs/guide/scenario-reference.md.
std::string scenario_reference();

}  // namespace shardsim
