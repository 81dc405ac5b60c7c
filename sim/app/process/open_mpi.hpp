#pragma once

#include "sim/app/process/open_backend.hpp"

namespace shardsim {

/// `open_backend` and `require_backend` for MPI.
[[nodiscard]] std::unique_ptr<OpenBackend> open_mpi(const ProcessOptions& options,
                                                    const BackendSetting& setting,
                                                    const MeetingPoint& place, CallWatch& watch);
void require_mpi();

}  // namespace shardsim
