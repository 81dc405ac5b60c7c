#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace shardsim {

/// Prints "warning: ..." lines for verbs without a summary. Warnings contain words of users.
void tell_warnings(const std::vector<std::string>& warnings, std::ostream& err);

}  // namespace shardsim
