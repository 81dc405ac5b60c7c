#pragma once

#include <iosfwd>

#include "sim/app/collective/collective_setting.hpp"
#include "sim/app/run.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own name.
class App;
}  // namespace CLI

namespace shardsim {

/// The options of the verb, but for those of real runs, which it shares with `run`.
void add_collective_options(CLI::App& verb, CollectiveArguments& arguments);

/// `shardsim collective OP`: times one operation over sizes, checks every element, and prints the
/// table or the JSON. Returns the exit code: 1 for a wrong element, or for bytes on the wire that
/// are not those of our own count where they must be. Throws Error. `hooks`: for tests.
int command_collective(const CollectiveArguments& arguments, std::ostream& out, std::ostream& err,
                       RunHooks hooks = {});

}  // namespace shardsim
