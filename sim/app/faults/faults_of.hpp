#pragma once

#include <memory>
#include <string>

#include "sim/hardware/faults/faults.hpp"

#include "scenarios/scenario.hpp"

namespace shardsim {

/// What of a scenario's faults makes steps slower, by ranks and nodes; null if nothing does.
[[nodiscard]] std::shared_ptr<const MachineFaults> faults_of(const Scenario& scenario);

/// "2 stragglers, 1 slow link": the lists that are not empty; "" if all are.
[[nodiscard]] std::string faults_in_words(const FaultSpec& faults);

}  // namespace shardsim
