#pragma once

#include <string>
#include <vector>

#include "sim/app/verb.hpp"

namespace shardsim {

struct FixArguments {
  std::vector<std::string> files;
  std::string output;    ///< Where the text goes instead of into its file; "-": standard output.
  bool dry_run = false;  ///< Prints a unified diff and writes nothing.
  bool quiet = false;
  bool json = false;
  bool annotations = false;
};

/// `shardsim fix`: rewrites what leaves no doubt, keeps comments and layout. Returns 0 if all files
/// load now; throws the ScenarioError of what is left for a person.
int command_fix(const FixArguments& arguments, std::ostream& out, std::ostream& err);

[[nodiscard]] Verb fix_verb();

}  // namespace shardsim
