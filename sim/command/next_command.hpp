#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>

#include "reports/result.hpp"
#include "sim/command/command_run.hpp"
#include "sim/experiment/experiment.hpp"

// The last line of a run's page: the next command.
namespace shardsim {

/// Continues from the run, with its overrides. Empty if nothing can be run: standard input cannot
/// be read again.
[[nodiscard]] std::string next_command(const RunArguments& arguments, const Experiment& experiment,
                                       const Result& result);

/// A page cuts text wider than itself, so this prints such a command once more, whole.
void print_wide_command(const std::string& command, std::size_t width, std::ostream& err);

}  // namespace shardsim
