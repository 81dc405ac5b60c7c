#pragma once

#include <iosfwd>
#include <string>

#include "sim/real/open_backend.hpp"

namespace shardsim {

/// `open_backend` and `require_backend` for MPI.
[[nodiscard]] std::unique_ptr<OpenBackend> open_mpi(const ProcessOptions& options,
                                                    const BackendSetting& setting,
                                                    const MeetingPoint& place, CallWatch& watch);
void require_mpi();

/// The library that mpirun preloads, so that no other machine can reach a run on this one
/// (loopback_library_of); "" with a note on `err` if it is not installed.
[[nodiscard]] std::string mpi_preload(std::ostream& err);

}  // namespace shardsim
