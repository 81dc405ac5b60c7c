#include "backends/nccl/nccl_probe.hpp"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

std::string joined(const std::vector<std::string>& parts) {
  return fmt::format("{}", fmt::join(parts, "; "));
}

// 13000 is 13.0.
std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

ProbeRow runtime_row(const CudaLibrary& cuda) {
  const DynamicLibrary& library = cuda.library();
  if (cuda.usable()) {
    int version = 0;
    cuda.functions().runtime_get_version(&version);
    return {"CUDA runtime", true, cuda_version_text(version) + ", " + library.path(), ""};
  }
  return missing_row(
      "CUDA runtime",
      library.is_open() ? fmt::format("{} lacks {}", library.path(), joined(library.missing()))
                        : "no CUDA runtime found: " + joined(library.errors()),
      "install the CUDA runtime (libcudart 11 to 13), or set SHARDSIM_CUDART_LIB to its path");
}

ProbeRow driver_row(const CudaLibrary& cuda, CudaStatus status) {
  const auto missing = [](std::string detail, std::string remedy) {
    return missing_row("NVIDIA driver", std::move(detail), std::move(remedy));
  };
  if (!cuda.usable()) {
    return missing("not asked: there is no CUDA runtime", "first the CUDA runtime");
  }
  int driver = 0;
  int runtime = 0;
  cuda.functions().driver_get_version(&driver);
  cuda.functions().runtime_get_version(&runtime);
  if (status == CudaStatus::insufficient_driver && driver == 0) {
    return missing("no NVIDIA driver",
                   "run on a machine with an NVIDIA GPU and its driver, or use --backend=mpi");
  }
  if (status == CudaStatus::insufficient_driver) {
    return missing(fmt::format("the driver is too old: it supports CUDA {}, the runtime is {}",
                               cuda_version_text(driver), cuda_version_text(runtime)),
                   "update the driver, or set SHARDSIM_CUDART_LIB to an older CUDA runtime");
  }
  if (status == CudaStatus::stub_library) {
    return missing("the toolkit's stub libcuda.so is on the library path, instead of the driver's",
                   "take .../lib64/stubs out of LD_LIBRARY_PATH");
  }
  if (status == CudaStatus::success || status == CudaStatus::no_device) {
    return {"NVIDIA driver", true, "supports CUDA " + cuda_version_text(driver), ""};
  }
  return missing(
      fmt::format("cudaGetDeviceCount failed: {}, {}", cuda.functions().error_name(status),
                  cuda.functions().error_string(status)),
      "look at `nvidia-smi`, and at the kernel's log for errors of the driver");
}

ProbeRow gpus_row(const CudaLibrary& cuda, bool has_driver, int count) {
  if (!has_driver) {
    return missing_row("GPUs", "not asked: there is no driver", "first the NVIDIA driver");
  }
  if (count <= 0) {
    const std::string visible = environment("CUDA_VISIBLE_DEVICES");
    return missing_row("GPUs",
                       "there is a driver, but no GPU" +
                           (visible.empty() ? "" : " (CUDA_VISIBLE_DEVICES=" + visible + ")"),
                       "look at `nvidia-smi -L` and at CUDA_VISIBLE_DEVICES");
  }
  std::vector<std::pair<std::string, int>> names;
  for (int device = 0; device < count; ++device) {
    CudaDeviceProperties properties{};
    cuda.functions().get_device_properties(&properties, device);
    if (names.empty() || names.back().first != properties.name) {
      names.emplace_back(properties.name, 0);
    }
    ++names.back().second;
  }
  ProbeRow row{.what = "GPUs", .available = true};
  for (const auto& [name, number] : names) {
    row.detail += fmt::format("{}{} x {}", row.detail.empty() ? "" : ", ", number, name);
  }
  return row;
}

ProbeRow nccl_row(const NcclLibrary& nccl) {
  const DynamicLibrary& library = nccl.library();
  if (!library.is_open()) {
    const auto packages = nccl_of_python_packages(environment("PATH"));
    return missing_row("NCCL", "no NCCL found: " + joined(library.errors()),
                       "install libnccl2, 2.18 or newer, or give its path by --nccl-lib or "
                       "SHARDSIM_NCCL_LIB" +
                           (packages.empty() ? "" : ", e.g. " + packages.front()));
  }
  const std::string version = nccl_version_text(nccl.version());
  if (nccl.version() < NcclLibrary::kOldestVersion) {
    return missing_row("NCCL", fmt::format("NCCL {} is too old: {}", version, library.path()),
                       "install NCCL 2.18 or newer, or give its path by --nccl-lib");
  }
  if (!nccl.usable()) {
    return missing_row("NCCL",
                       fmt::format("{} lacks {}", library.path(), joined(library.missing())),
                       "give the path of a complete NCCL by --nccl-lib");
  }
  return {"NCCL", true, version + ", " + library.path(), ""};
}

}  // namespace

bool NcclProbe::complete() const {
  return std::all_of(rows.begin(), rows.end(), [](const ProbeRow& row) { return row.available; });
}

void NcclProbe::require_all() const {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].available) continue;
    throw Error(ExitCode::backend_failed, codes[i], "--backend=nccl: " + rows[i].detail,
                rows[i].remedy);
  }
}

NcclProbe probe_nccl(const std::string& nccl_path, const std::string& cudart_path) {
  NcclProbe probe;
  probe.cuda = std::make_shared<CudaLibrary>(cudart_path);
  probe.nccl = std::make_shared<NcclLibrary>(nccl_path);
  CudaStatus status = CudaStatus::success;
  if (probe.cuda->usable()) {
    status = probe.cuda->functions().get_device_count(&probe.num_gpus);
    if (status != CudaStatus::success) probe.num_gpus = 0;
  }
  probe.rows.push_back(runtime_row(*probe.cuda));
  probe.rows.push_back(driver_row(*probe.cuda, status));
  probe.rows.push_back(gpus_row(*probe.cuda, probe.rows.back().available, probe.num_gpus));
  probe.rows.push_back(nccl_row(*probe.nccl));
  probe.codes = {"E1030", "E1031", "E1032", "E1033"};
  return probe;
}

DoctorReport doctor_report(const NcclProbe& nccl, const std::vector<ProbeRow>& mpi) {
  DoctorReport report;
  report.rows = {probe_mpirun(environment("PATH"))};
  // The run's own needs come before those of starting ranks.
  std::vector<ProbeRow> needs_of_mpi = mpi;
  needs_of_mpi.push_back(report.rows.front());
  report.rows.insert(report.rows.end(), mpi.begin(), mpi.end());
  report.rows.insert(report.rows.end(), nccl.rows.begin(), nccl.rows.end());
  report.rows.push_back(probe_loopback_counter());
  report.backends = {readiness_of("mpi", needs_of_mpi), readiness_of("nccl", nccl.rows)};
  return report;
}

}  // namespace shardsim
