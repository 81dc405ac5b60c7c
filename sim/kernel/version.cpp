#include "sim/kernel/version.hpp"

namespace shardsim {

std::string_view version() { return SHARDSIM_VERSION; }

}  // namespace shardsim
