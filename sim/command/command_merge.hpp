#pragma once

#include <string>

#include "sim/console/verb.hpp"

namespace shardsim {

struct MergeArguments {
  std::string folder;
  bool csv = false;
  bool ndjson = false;  ///< The default, given explicitly.
  std::string output;   ///< Empty or "-": standard output.
};

/// `shardsim merge DIR`: the rows of all parts, ascending, each point once, without those that the
/// sweep skips. The bytes do not depend on which process computed them, nor on the order. Throws
/// Error (E1315, exit code 1) with the command to finish if points are missing.
int command_merge(const MergeArguments& arguments, const Console& console);

[[nodiscard]] Verb merge_verb();

}  // namespace shardsim
