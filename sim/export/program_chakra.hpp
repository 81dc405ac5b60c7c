#pragma once

#include <string>
#include <vector>

#include "sim/run/run.hpp"

#include "sim/programs/program_set.hpp"

// Chakra traces of a plan, made of its programs: dependencies are those of the program, on any
// machine, and attributes say what the schema cannot, so that an import finds the same programs.
namespace shardsim {

struct ChakraExport {
  std::vector<std::string> ranks;  ///< The files, by rank.
  std::string groups;              ///< comm_groups.json.
};

/// Replays the plan on its machine, with all ranks traced, for the times of its nodes. Throws
/// UsageError E1377 as record_programs, E1399 for several streams of computing, and what a run
/// throws.
[[nodiscard]] ChakraExport chakra_of_programs(Scenario scenario, const RunHooks& hooks);

}  // namespace shardsim
