#pragma once

#include <string>
#include <vector>

#include "sim/console/verb.hpp"
#include "sim/run/run.hpp"

namespace shardsim {

struct DemoArguments {
  std::string folder = "shardsim-demo";  ///< Gets the scenario and its outputs.
  std::vector<std::string> overrides;
  bool json = false;
  bool assumptions = false;
  bool quiet = false;
  bool color = false;
};

/// `shardsim demo`: puts the built-in scenario into the folder and runs it as `shardsim FILE` does.
/// Throws UsageError (E1381) if the folder has a changed one.
int command_demo(const DemoArguments& arguments, std::ostream& out, std::ostream& err,
                 const RunHooks& hooks);

[[nodiscard]] Verb demo_verb();

}  // namespace shardsim
