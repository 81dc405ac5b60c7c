#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>

#include "reports/result.hpp"
#include "sim/app/command_run.hpp"
#include "sim/experiment/experiment.hpp"

// The last line of a run's page: what to run next.
namespace shardsim {

/// Goes on from what was run, with its overrides. Empty where there is nothing that could be run:
/// standard input cannot be read again.
[[nodiscard]] std::string next_command(const RunArguments& arguments, const Experiment& experiment,
                                       const Result& result);

/// A page cuts what is wider than itself: such a command once more, whole.
void print_wide_command(const std::string& command, std::size_t width, std::ostream& err);

}  // namespace shardsim
