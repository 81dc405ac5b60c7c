#pragma once

#include <iosfwd>
#include <ostream>
#include <string>
#include <vector>

#include "sim/kernel/error.hpp"

#include "sim/command/verbs.hpp"
#include "sim/run/run.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own name.
class ParseError;
}  // namespace CLI

// The command line: its verbs, and words that do not fit, in the form of all our errors: the
// problem and the fix.
namespace shardsim {

/// The command: parses arguments, runs one verb, returns the exit code. Results go to `out`,
/// everything else to `err`. `terminal`: whether `out` may be coloured. `hooks`: for runs, in
/// tests.
int run_command(int argc, const char* const* argv, std::ostream& out, std::ostream& err,
                bool terminal, const RunHooks& hooks = {});

/// `words` as the user gave them. Codes E0904 (options and words) and E0905 (nothing to do).
[[nodiscard]] UsageError usage_error(const CLI::App& app, const CLI::ParseError& error,
                                     const std::vector<std::string>& words);

/// Every failure ends here, in one place: a JSON array of problems or annotations of GitHub Actions
/// on `out`, or text on `err`. Returns the exit code.
int report(const Error& error, ErrorForm form, std::ostream& out, std::ostream& err);

}  // namespace shardsim
