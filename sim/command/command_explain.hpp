#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "sim/console/verb.hpp"

namespace shardsim {

/// `shardsim explain CODE...`: the meaning of codes of diagnoses; without codes, all in one line
/// each. `json`: the entries as an array. Returns 0. Throws UsageError (E1205) for an unknown code,
/// with the nearest one.
int command_explain(const std::vector<std::string>& codes, bool json, std::ostream& out);

[[nodiscard]] Verb explain_verb();

}  // namespace shardsim
