#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "sim/app/verb.hpp"

namespace shardsim {

/// `shardsim check FILE...`: validates only. Throws the problems of all files together.
int command_check(const std::vector<std::string>& files, const std::vector<std::string>& overrides,
                  bool json, std::ostream& out, std::ostream& err);

[[nodiscard]] Verb check_verb();

}  // namespace shardsim
