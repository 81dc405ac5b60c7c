#pragma once

#include <string>
#include <vector>

// Needs of real backends that this machine meets or lacks, as rows. `shardsim doctor` prints them;
// a run checks them before it starts.
namespace shardsim {

struct ProbeRow {
  std::string what;  ///< "NCCL".
  bool available = false;
  std::string detail;  ///< One line: what was found, or what is missing.
  std::string remedy;  ///< One line; empty where it is available.
};

/// Whether a backend can be used here.
struct BackendReadiness {
  std::string backend;  ///< As in --backend.
  std::string
      problem;  ///< The first thing that is missing, as the backend's error says it; or empty.
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

/// One line per row, and one more for its remedy:
///   "ok       NCCL      2.28.9, /usr/lib/libnccl.so.2"
/// and in the end one per backend:
///   "nccl: not ready: no NVIDIA driver"
[[nodiscard]] std::string render_doctor(const DoctorReport& report);
/// {"doctor": [{"what", "available", "detail", "remedy"}, ...],
///  "backends": [{"backend", "ready", "problem"}, ...]}.
[[nodiscard]] std::string render_doctor_json(const DoctorReport& report);

}  // namespace shardsim
