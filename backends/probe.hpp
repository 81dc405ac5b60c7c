#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// Needs of real backends that this machine meets or lacks, as rows. `shardsim doctor` prints them;
// a run checks them before it starts. The counter of the loopback interface, which runs read, is
// one.
namespace shardsim {

struct ProbeRow {
  std::string what;  ///< "NCCL".
  bool available = false;
  std::string detail;  ///< One line: what was found, or what is missing.
  std::string remedy;  ///< One line; empty where it is available.
};

[[nodiscard]] inline ProbeRow missing_row(std::string what, std::string detail,
                                          std::string remedy) {
  return {std::move(what), false, std::move(detail), std::move(remedy)};
}

/// Whether a backend can be used here.
struct BackendReadiness {
  std::string backend;  ///< As in --backend.
  /// The first thing that is missing, as the backend's error says it; or empty.
  std::string problem;
};

/// `needs`: what the backend needs, in the order in which it looks for it.
[[nodiscard]] BackendReadiness readiness_of(const std::string& backend,
                                            const std::vector<ProbeRow>& needs);

/// Findings of `shardsim doctor`.
struct DoctorReport {
  std::vector<ProbeRow> rows;
  std::vector<BackendReadiness> backends;
};

/// Open MPI's launcher: mpirun in the folders of `path` (as in PATH), and its version.
[[nodiscard]] ProbeRow probe_mpirun(const std::string& path);

/// Bytes that the loopback interface has received since the machine started, all programs together:
/// bracket what is to be measured, outside of it. Nothing where the counter cannot be read.
/// `file`: where it stands.
[[nodiscard]] std::optional<std::int64_t> read_loopback_bytes(
    const std::string& file = "/sys/class/net/lo/statistics/rx_bytes");

/// Sends `bytes` through a socket of the loopback interface and looks whether the counter saw them:
/// some kernels do not count. Other programs' traffic can only add to it, so it may be up to a
/// tenth and 64 KiB more.
[[nodiscard]] ProbeRow probe_loopback_counter(
    std::int64_t bytes = 1 << 20,
    const std::string& file = "/sys/class/net/lo/statistics/rx_bytes");

/// One line per row, and one more for its remedy:
///   "ok       NCCL      2.28.9, /usr/lib/libnccl.so.2"
/// and in the end one per backend:
///   "nccl: not ready: no NVIDIA driver"
[[nodiscard]] std::string render_doctor(const DoctorReport& report);
/// {"doctor": [{"what", "available", "detail", "remedy"}, ...],
///  "backends": [{"backend", "ready", "problem"}, ...]}.
[[nodiscard]] std::string render_doctor_json(const DoctorReport& report);

}  // namespace shardsim
