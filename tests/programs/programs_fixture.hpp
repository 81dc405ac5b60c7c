#pragma once

#include <functional>
#include <string>

#include "scenarios/scenario.hpp"

#include "sim/programs/program_set.hpp"

namespace shardsim::test {

/// Each shipped verification with its name, as a plan.
void for_each_verification(
    const std::function<void(const std::string& name, Scenario scenario)>& visit);

/// The first difference of two sets in words, row by row; "" if they say the same. Call sites are
/// no part of it.
[[nodiscard]] std::string difference_of(const ProgramSet& a, const ProgramSet& b);

/// A program file of two ranks, which compute and reduce. `steps`: in place of its own.
[[nodiscard]] std::string small_program_file(const std::string& steps = "");

}  // namespace shardsim::test
