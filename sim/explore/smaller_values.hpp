#pragma once

#include <map>
#include <string>
#include <vector>

#include "scenarios/scenario.hpp"

// The steps by which a scenario gets smaller, one field at a time: ranks first, because they matter
// most; then steps and microbatches, then the model.
namespace shardsim {

/// Fields and the texts they get, as --set takes them.
using FieldChanges = std::map<std::string, std::string>;

/// One way to be smaller: the changes that it needs at least, then more changes if the file
/// contradicts these. The first that loads counts.
using SmallerScenario = std::vector<FieldChanges>;

/// Names of fields that can be made smaller, in the order in which to try them.
[[nodiscard]] const std::vector<std::string>& shrinkable_fields();
/// `field` made smaller, the smallest first, with the dependent fields (the system's size, the
/// global batch). Empty if it is as small as can be.
[[nodiscard]] std::vector<SmallerScenario> smaller_values(const Scenario& scenario,
                                                          const std::string& field);

}  // namespace shardsim
