#pragma once

#include <functional>
#include <string>
#include <vector>

#include "scenarios/scenario.hpp"

#include "sim/programs/chakra_reader.hpp"
#include "sim/programs/program_set.hpp"

namespace shardsim::test {

/// Shipped verifications with their names, as plans: a quarter, another for each `test` and commit.
void for_each_verification(
    const std::string& test,
    const std::function<void(const std::string& name, Scenario scenario)>& visit);

/// The first difference of two sets in words, row by row; "" if they say the same. Call sites are
/// no part of it.
[[nodiscard]] std::string difference_of(const ProgramSet& a, const ProgramSet& b);

/// A program file of two ranks, which compute and reduce. `steps`: in place of its own.
[[nodiscard]] std::string small_program_file(const std::string& steps = "");

// --- Traces ------------------------------------------------------------------------------------

/// Chakra's traces as programs, as `shardsim replay` makes them.
[[nodiscard]] ProgramSet imported(const std::vector<TraceFile>& files, const std::string& groups);
[[nodiscard]] Time step_on(const ProgramSet& set, const Experiment& machine);
/// Whether one of the notes has this part.
[[nodiscard]] bool has_note(const ProgramSet& set, const std::string& part);

/// A plan of eight ranks, on one node.
[[nodiscard]] Experiment exported_plan(const std::vector<std::string>& overrides = {});
[[nodiscard]] const char* exported_plan_text();

}  // namespace shardsim::test
