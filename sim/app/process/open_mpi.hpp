#pragma once

#include <iosfwd>
#include <string>

#include "sim/app/process/open_backend.hpp"

namespace shardsim {

/// `open_backend` and `require_backend` for MPI.
[[nodiscard]] std::unique_ptr<OpenBackend> open_mpi(const ProcessOptions& options,
                                                    const BackendSetting& setting,
                                                    const MeetingPoint& place, CallWatch& watch);
void require_mpi();

/// What mpirun is started with, so that a run on this machine can be reached from no other
/// (loopback_library_of); "" with a note on `err` if that is not installed.
[[nodiscard]] std::string mpi_preload(std::ostream& err);

}  // namespace shardsim
