#include "sim/app/desk/search/emit.hpp"

namespace shardsim {

std::string emit_torchtitan(const Scenario&) { return {}; }

}  // namespace shardsim
