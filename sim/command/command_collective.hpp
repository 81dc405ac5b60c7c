#pragma once

#include <iosfwd>

#include "sim/collective/collective_setting.hpp"
#include "sim/console/verb.hpp"
#include "sim/run/run.hpp"

namespace shardsim {

/// `shardsim collective OP`: times one operation over sizes, checks every element, and prints the
/// table or the JSON. Returns the exit code: 1 for a wrong element, or for bytes on the wire that
/// are not those of our own count where they must be. Throws Error. `hooks`: for tests.
int command_collective(const CollectiveArguments& arguments, std::ostream& out, std::ostream& err,
                       RunHooks hooks = {});

[[nodiscard]] Verb collective_verb();

}  // namespace shardsim
