#pragma once

#include <string>

#include "sim/command/starter.hpp"
#include "sim/console/verb.hpp"

namespace shardsim {

struct InitArguments {
  std::string from;  ///< A preset, or the path of a scenario to begin with; empty: neither.
  std::string file = "scenario.json";  ///< "-": standard output.
  StarterAsk ask;
  bool quiet = false;
};

/// `shardsim init`: writes a scenario that loads, and the schema that editors use to complete keys.
/// It never overwrites: throws UsageError (E1384) if the file exists.
int command_init(const InitArguments& arguments, std::ostream& out, std::ostream& err);

[[nodiscard]] Verb init_verb();

}  // namespace shardsim
