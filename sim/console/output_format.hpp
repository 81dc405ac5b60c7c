#pragma once

#include <iosfwd>
#include <string>
#include <vector>

// The form in which a verb prints errors and warnings: text for people, JSON for programs,
// annotations for the page of a change on GitHub.
namespace shardsim {

struct Result;

/// The errors of a finished run, a line each: failed expectations and checks (memory among them),
/// and the diagnosis. `file`: the scenario, in which an expectation has a line. Nothing for a run
/// without errors.
[[nodiscard]] std::string annotations_of(const Result& result, const std::string& file);

/// Prints "warning: ..." lines for verbs without a summary. Warnings contain words of users.
void tell_warnings(const std::vector<std::string>& warnings, std::ostream& err);

}  // namespace shardsim
