#pragma once

#include <map>
#include <string>
#include <vector>

#include "scenarios/scenario.hpp"

// How a scenario gets smaller, one field at a time: ranks first, for fewer ranks say most; then
// steps and microbatches, then the model.
namespace shardsim {

/// Fields and the texts they get, as --set takes them.
using FieldChanges = std::map<std::string, std::string>;

/// One way to be smaller: the changes that it needs at least, then more of them that it needs where
/// the file says something that they contradict. The first that loads counts.
using SmallerScenario = std::vector<FieldChanges>;

/// Names of what can be made smaller, in the order in which that is to be tried.
[[nodiscard]] const std::vector<std::string>& shrinkable_fields();
/// `field` made smaller, the smallest first; with it what follows from it (the system's size, the
/// global batch). Empty if it is as small as can be.
[[nodiscard]] std::vector<SmallerScenario> smaller_values(const Scenario& scenario,
                                                          const std::string& field);

}  // namespace shardsim
