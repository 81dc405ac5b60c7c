#include "sim/app/desk/search/emit.hpp"

namespace shardsim {

std::string emit_deepspeed(const Scenario&) { return {}; }

}  // namespace shardsim
