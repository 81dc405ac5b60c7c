#pragma once

#include <string>
#include <vector>

// What a machine has of what real backends need, as rows: printed by `shardsim doctor`, and asked
// before a run starts.
namespace shardsim {

struct ProbeRow {
  std::string what;  ///< "NCCL".
  bool available = false;
  std::string detail;  ///< One line: what was found, or what is missing.
  std::string remedy;  ///< One line; empty where it is available.
};

/// Open MPI's launcher: mpirun in the folders of `path` (as in PATH), and its version.
[[nodiscard]] ProbeRow probe_mpirun(const std::string& path);

/// One line per row, and one more for its remedy:
///   "ok       NCCL      2.28.9, /usr/lib/libnccl.so.2"
[[nodiscard]] std::string render_doctor(const std::vector<ProbeRow>& rows);
/// {"doctor": [{"what", "available", "detail", "remedy"}, ...]}.
[[nodiscard]] std::string render_doctor_json(const std::vector<ProbeRow>& rows);

}  // namespace shardsim
