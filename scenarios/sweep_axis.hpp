#pragma once

#include <string>

#include "scenarios/sweep_block.hpp"

// One axis of a sweep, from the file or from --axis.
namespace shardsim {

/// A field that can be set, and the list of values it takes (E1301 to E1303, E1305, and those of
/// the field). Without values where something is wrong.
[[nodiscard]] SweepAxis read_axis(const JsonMember& member, const std::string& pointer,
                                  ProblemList& problems);

}  // namespace shardsim
