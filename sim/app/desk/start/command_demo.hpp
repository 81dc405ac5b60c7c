#pragma once

#include <string>
#include <vector>

#include "sim/app/run.hpp"
#include "sim/app/verb.hpp"

namespace shardsim {

struct DemoArguments {
  std::string folder = "shardsim-demo";  ///< Gets the scenario and what it names.
  std::vector<std::string> overrides;
  bool json = false;
  bool quiet = false;
  bool color = false;
};

/// `shardsim demo`: runs the built-in scenario as `shardsim FILE` does. A scenario that lies in the
/// folder already is run instead if it is that one, and refused (E1381) if somebody changed it.
int command_demo(const DemoArguments& arguments, std::ostream& out, std::ostream& err,
                 const RunHooks& hooks);

[[nodiscard]] Verb demo_verb();

}  // namespace shardsim
