#pragma once

#include <string>
#include <vector>

#include "sim/programs/program_set.hpp"

// The steps of `shardsim replay`, for verbs that record programs before.
namespace shardsim {

struct Console;

/// The words of `shardsim replay`.
struct ReplayArguments {
  std::vector<std::string> files;  ///< Or folders.
  std::string groups;              ///< The list of a Chakra trace.
  int ranks = 0;                   ///< 0: one for each trace.
  std::string system = "dgx-h100";
  std::vector<std::string> overrides;  ///< As --set.
  std::string output;                  ///< A program file.
  double scale_recorded = 1.0;
  bool json = false;
  bool quiet = false;
};

/// The programs of the files. Throws Error.
[[nodiscard]] ProgramSet read_programs(const ReplayArguments& arguments);

/// Prints the time of the programs on the machine. Throws Error.
void print_replay(const ProgramSet& set, const ReplayArguments& arguments, const Console& console);

}  // namespace shardsim
