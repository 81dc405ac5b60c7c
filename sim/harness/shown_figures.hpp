#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/harness/program_run.hpp"
#include "sim/harness/shown_state.hpp"

namespace shardsim {

/// All that one rank of a real run has shown, sent and used.
struct ShownFigures {
  ShownState shown;
  std::vector<std::pair<std::string, int>> groups;  ///< Names and sizes.
  std::int64_t bytes_sent = 0;                      ///< Payload.
  std::int64_t peak_bytes = 0;
};

/// For a process on a machine like this one; any bytes.
[[nodiscard]] std::string to_text(const ShownFigures& figures);
/// The figures of all ranks, by rank, as one run. Throws std::runtime_error for other texts.
[[nodiscard]] ProgramRun run_of(const std::vector<std::string>& texts);

}  // namespace shardsim
