#pragma once

#include <string>
#include <vector>

#include "sim/console/verb.hpp"

namespace shardsim {

struct FixArguments {
  std::vector<std::string> files;
  std::string output;    ///< The output in place of the file; "-": standard output.
  bool dry_run = false;  ///< Prints a unified diff and writes nothing.
  bool quiet = false;
  bool json = false;
  bool annotations = false;
};

/// `shardsim fix`: rewrites mistakes with one clear remedy, keeps comments and layout. Returns 0 if
/// all files load now; throws the ScenarioError of the mistakes that are left for the user.
int command_fix(const FixArguments& arguments, std::ostream& out, std::ostream& err);

[[nodiscard]] Verb fix_verb();

}  // namespace shardsim
