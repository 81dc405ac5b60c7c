#pragma once

#include <string>
#include <vector>

#include "sim/console/verb.hpp"

namespace shardsim {

struct DiffArguments {
  std::string a;
  std::string b;                       ///< Empty: A, with the overrides.
  std::vector<std::string> overrides;  ///< "a.b=value" each, for B.
  std::string measured;                ///< A real run in B's place; empty: none.
  std::vector<std::string> limits;     ///< "step_time_s > 2%" each.
  bool json = false;
};

/// `shardsim diff A B`: compares the time and memory of two runs. Returns 0, or 1 if a limit is
/// exceeded. Throws Error.
int command_diff(const DiffArguments& arguments, const Console& console);

[[nodiscard]] Verb diff_verb();

}  // namespace shardsim
