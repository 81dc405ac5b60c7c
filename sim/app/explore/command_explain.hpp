#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "sim/app/verb.hpp"

namespace shardsim {

/// `shardsim explain CODE...`: what the codes of diagnoses mean; without codes, all in one line
/// each. `json`: the entries as an array. Returns 0. Throws UsageError (E1205) for a code that is
/// none, with the nearest one.
int command_explain(const std::vector<std::string>& codes, bool json, std::ostream& out);

[[nodiscard]] Verb explain_verb();

}  // namespace shardsim
