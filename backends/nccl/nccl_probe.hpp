#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/nccl/cuda_library.hpp"
#include "backends/nccl/nccl_library.hpp"
#include "backends/probe.hpp"

namespace shardsim {

/// Parts of the NCCL backend found on this machine. Probe before ranks start: a failure is then one
/// line instead of one per rank. The probe calls the CUDA runtime, so start ranks by fork and exec,
/// not as copies of this process.
struct NcclProbe {
  /// CUDA runtime, NVIDIA driver, GPUs, NCCL, each below what it needs.
  std::vector<ProbeRow> rows;
  std::vector<std::string> codes;  ///< Error code for each row, if it is missing.
  int num_gpus = 0;                ///< Visible ones.
  std::shared_ptr<const CudaLibrary> cuda;
  std::shared_ptr<const NcclLibrary> nccl;

  [[nodiscard]] bool complete() const;
  /// Throws Error (exit code 5) with the first missing row's cause and remedy.
  void require_all() const;
};

/// `nccl_path`: of --nccl-lib; `cudart_path`: as SHARDSIM_CUDART_LIB. Empty: see the libraries.
[[nodiscard]] NcclProbe probe_nccl(const std::string& nccl_path = {},
                                   const std::string& cudart_path = {});

/// All that `shardsim doctor` says: mpirun, `mpi` (what the caller knows of MPI), the rows of
/// `nccl` and the loopback counter, without which both backends are ready.
[[nodiscard]] DoctorReport doctor_report(const NcclProbe& nccl,
                                         const std::vector<ProbeRow>& mpi = {});

}  // namespace shardsim
