#include "backends/nccl/nccl_probe.hpp"

#include <cstdlib>
#include <filesystem>
#include <string>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "backends/nccl/nccl_backend.hpp"

#include "tests/nccl/stand_in/stand_in.hpp"

namespace shardsim {
namespace {

std::string incomplete() {
  return (std::filesystem::path(stand_in::path()).parent_path() / "libnccl_incomplete.so").string();
}

NcclProbe probe() { return probe_nccl(stand_in::path(), stand_in::path()); }

NcclProbe probe_with(const std::function<void(stand_in::Script&)>& change) {
  stand_in::reset();
  change(stand_in::script());
  return probe();
}

struct Refusal {
  std::string code;
  ExitCode exit_code = ExitCode::ok;
  std::string message;
  std::string fix;
};

Refusal refusal_of(const NcclProbe& probe) {
  try {
    probe.require_all();
  } catch (const Error& error) {
    return {error.code(), error.exit_code(), error.what(), error.fix()};
  }
  return {};
}

// The first library of the toolkits on this machine; empty: none.
std::string of_toolkit(const std::string& prefix) {
  namespace fs = std::filesystem;
  std::vector<fs::path> roots;
  if (const char* home = std::getenv("CUDA_HOME")) roots.emplace_back(home);
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("/usr/local", none)) {
    if (entry.path().filename().string().rfind("cuda", 0) == 0) roots.push_back(entry.path());
  }
  for (const fs::path& root : roots) {
    for (const char* folder : {"lib", "lib64"}) {
      for (const auto& entry : fs::directory_iterator(root / folder, none)) {
        if (entry.path().filename().string().rfind(prefix, 0) == 0) return entry.path().string();
      }
    }
  }
  return {};
}

}  // namespace

TEST_CASE("a machine with everything: all rows, with versions, paths and the GPUs' names") {
  const NcclProbe found = probe_with([](auto&) {});
  REQUIRE(found.rows.size() == 4);
  CHECK(found.complete());
  CHECK(refusal_of(found).code.empty());
  CHECK(found.num_gpus == 8);
  CHECK(found.rows[0].detail == "13.0, " + stand_in::path());
  CHECK(found.rows[1].detail == "supports CUDA 13.0");
  CHECK(found.rows[2].detail == "2 x Stand-in A, 6 x Stand-in B");
  CHECK(found.rows[3].detail == "2.28.9, " + stand_in::path());
}

TEST_CASE("the ladder: each missing thing has its code, exit code 5, one line and a remedy") {
  const auto check = [](const NcclProbe& found, const std::string& code, const std::string& text) {
    const Refusal refusal = refusal_of(found);
    INFO(refusal.message);
    CHECK(refusal.code == code);
    CHECK(refusal.exit_code == ExitCode::backend_failed);
    CHECK_THAT(refusal.message, Catch::Contains(text));
    CHECK(refusal.message.find('\n') == std::string::npos);
    CHECK_FALSE(refusal.fix.empty());
    CHECK(refusal.fix.find('\n') == std::string::npos);
  };
  const auto status = [](CudaStatus value, int driver) {
    return probe_with([=](auto& script) {
      script.device_count_status = value;
      script.driver_version = driver;
    });
  };
  check(status(CudaStatus::insufficient_driver, 0), "E1031", "no NVIDIA driver");
  check(status(CudaStatus::insufficient_driver, 11080), "E1031",
        "too old: it supports CUDA 11.8, the runtime is 13.0");
  check(status(CudaStatus::stub_library, 0), "E1031", "stub");
  check(status(static_cast<CudaStatus>(999), 13000), "E1031", "cudaErrorUnknown");
  check(status(CudaStatus::no_device, 13000), "E1032", "a driver, but no GPU");
  check(probe_with([](auto& script) { script.num_devices = 0; }), "E1032", "no GPU");
  check(probe_with([](auto& script) { script.version = 21705; }), "E1033",
        "NCCL 2.17.5 is too old");
  stand_in::reset();
  check(probe_nccl("/no/such/libnccl.so.2", stand_in::path()), "E1033", "/no/such/libnccl.so.2");
  check(probe_nccl(stand_in::path(), "/no/such/libcudart.so"), "E1030", "/no/such/libcudart.so");
  check(probe_nccl(incomplete(), stand_in::path()), "E1033", "lacks ncclAllReduce");
}

TEST_CASE("libraries are taken from the path given, else from the environment's") {
  stand_in::reset();
  setenv("SHARDSIM_NCCL_LIB", "/from/the/environment.so", 1);
  setenv("SHARDSIM_CUDART_LIB", stand_in::path().c_str(), 1);
  CHECK_THAT(probe_nccl().rows[3].detail, Catch::Contains("/from/the/environment.so"));
  CHECK(probe_nccl(stand_in::path()).complete());
  unsetenv("SHARDSIM_NCCL_LIB");
  unsetenv("SHARDSIM_CUDART_LIB");
}

TEST_CASE("doctor has the launcher's row, the caller's, the ladder's and the counter's") {
  const DoctorReport report =
      doctor_report(probe_with([](auto&) {}), {{.what = "libshardsim-mpi.so", .available = true}});
  std::vector<std::string> names;
  for (const ProbeRow& row : report.rows) {
    names.push_back(row.what);
    CHECK(row.available == row.remedy.empty());
  }
  CHECK(names == std::vector<std::string>{"mpirun", "libshardsim-mpi.so", "CUDA runtime",
                                          "NVIDIA driver", "GPUs", "NCCL", "loopback counter"});
}

TEST_CASE("doctor says in the end which backend is ready, as its error would say it") {
  const NcclProbe bare = probe_with([](auto& script) {
    script.device_count_status = CudaStatus::insufficient_driver;
    script.driver_version = 0;
  });
  const DoctorReport report =
      doctor_report(bare, {{.what = "MPI module", .detail = "no module", .remedy = "build it"}});
  REQUIRE(report.backends.size() == 2);
  CHECK(report.backends[0].backend == "mpi");
  CHECK(report.backends[0].problem == "no module");
  CHECK(report.backends[1].backend == "nccl");
  CHECK(report.backends[1].problem == "no NVIDIA driver");
  CHECK(refusal_of(bare).message == "--backend=nccl: " + report.backends[1].problem);
  CHECK(doctor_report(probe_with([](auto&) {})).backends[1].problem.empty());
}

TEST_CASE("NCCL's version as text") {
  CHECK(nccl_version_text(22809) == "2.28.9");
  CHECK(nccl_version_text(21800) == "2.18.0");
  CHECK(nccl_version_text(2708) == "2.7.8");
}

TEST_CASE("with the real libraries and no driver the ladder ends at the driver") {
  const std::string cudart = of_toolkit("libcudart.so.1");
  const std::string nccl = of_toolkit("libnccl.so.2");
  if (cudart.empty() || nccl.empty()) {
    WARN("not tested: no toolkit with libcudart and libnccl below CUDA_HOME or /usr/local/cuda*");
    return;
  }
  const NcclProbe found = probe_nccl(nccl, cudart);
  CHECK(found.rows[0].available);
  CHECK(found.rows[3].available);
  CHECK(found.nccl->version() >= NcclLibrary::kOldestVersion);
  if (found.rows[1].available) {
    WARN("not tested further: this machine has a driver");
    return;
  }
  CHECK_FALSE(found.complete());
  const Refusal refusal = refusal_of(found);
  CHECK(refusal.exit_code == ExitCode::backend_failed);
  CHECK(refusal.code == "E1031");
  CHECK(refusal.message == "--backend=nccl: no NVIDIA driver");
  // Whoever goes on nevertheless is told by the runtime itself.
  CHECK_THROWS_WITH(NcclBackend(found.cuda, found.nccl, {}),
                    Catch::Contains("cudaSetDevice failed: cudaErrorInsufficientDriver"));
  CHECK(found.nccl->functions().get_error_string(NcclStatus::remote_error) != nullptr);
}

}  // namespace shardsim
