#pragma once

#include <iosfwd>
#include <string>

#include "sim/console/verb.hpp"

namespace shardsim {

/// `shardsim doctor`: the parts of this machine that --backend=mpi and --backend=nccl need, each
/// missing one with its remedy, and whether each backend is ready. Always returns 0: no part is
/// required. `nccl_library`: the value of --nccl-lib.
int command_doctor(const std::string& nccl_library, bool json, std::ostream& out);

[[nodiscard]] Verb doctor_verb();

}  // namespace shardsim
