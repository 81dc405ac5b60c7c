#pragma once

#include <iosfwd>

#include "sim/run/run.hpp"

namespace shardsim {

/// The command: parses arguments, runs one verb, returns the exit code. Results go to `out`,
/// everything else to `err`. `terminal`: whether `out` may be coloured. `hooks`: for runs, in
/// tests.
int run_command(int argc, const char* const* argv, std::ostream& out, std::ostream& err,
                bool terminal, const RunHooks& hooks = {});

}  // namespace shardsim
