#pragma once

#include <iosfwd>
#include <string>

#include "sim/app/verb.hpp"

namespace shardsim {

/// `shardsim doctor`: what this machine has of what --backend=mpi and --backend=nccl need, each
/// missing thing with its remedy, and whether each is ready. Always 0: nothing need be there.
/// `nccl_library`: of --nccl-lib.
int command_doctor(const std::string& nccl_library, bool json, std::ostream& out);

[[nodiscard]] Verb doctor_verb();

}  // namespace shardsim
