#pragma once

#include <cstddef>
#include <iosfwd>
#include <ostream>
#include <string>
#include <vector>

#include "sim/kernel/error.hpp"

#include "sim/command/verbs.hpp"
#include "sim/run/run.hpp"

// The command line: its verbs, and the one place where failures are printed.
namespace shardsim {

/// The command: parses arguments, runs one verb, returns the exit code. Results go to `out`,
/// everything else to `err`. `terminal`: whether `out` may be coloured. `hooks`: for runs, in
/// tests. `screen`: pages and errors fit its widths.
int run_command(int argc, const char* const* argv, std::ostream& out, std::ostream& err,
                bool terminal, const RunHooks& hooks = {}, const Screen& screen = {});

/// Every failure ends here, in one place: a JSON object of problems, annotations of GitHub Actions
/// or JUnit's XML on `out`, or text of `width` columns (0: any) on `err`. Returns the exit code.
int report(const Error& error, ErrorForm form, std::ostream& out, std::ostream& err,
           std::size_t width = 0);

}  // namespace shardsim
