#include "sim/app/desk/search/emit.hpp"

namespace shardsim {

std::string emit_megatron(const Scenario&) { return {}; }

}  // namespace shardsim
