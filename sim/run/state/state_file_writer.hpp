#pragma once

#include <functional>
#include <string>

namespace shardsim {

/// Gets each file of a state dump (state_dump.hpp) by its name, when all ranks that hold a part of
/// it have shown theirs.
using StateFileWriter = std::function<void(const std::string& name, const std::string& bytes)>;

}  // namespace shardsim
