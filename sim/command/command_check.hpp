#pragma once

#include <string>
#include <vector>

#include "sim/console/verb.hpp"

namespace shardsim {

/// `shardsim check FILE...`: validates only. Throws the problems of all files together.
int command_check(const std::vector<std::string>& files, const std::vector<std::string>& overrides,
                  bool json, const Console& console);

[[nodiscard]] Verb check_verb();

}  // namespace shardsim
