#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "sim/export/recorded_run.hpp"

// Recorded runs in the formats of other programs.
namespace shardsim {

/// The file of one rank as a Chakra execution trace (MLCommons, schema 0.0.4), which ASTRA-sim and
/// others run.
[[nodiscard]] std::string to_chakra(const RecordedRun& run, int rank);

/// CollectiveCommType of a call by its name in traces. Throws Error E1375 (internal) for a name
/// that the schema does not have.
[[nodiscard]] std::int64_t chakra_collective_type(std::string_view name);

/// {"0": [0, 1, ...], ...}: members of the groups that nodes name by "pg_name".
[[nodiscard]] std::string chakra_groups(const RecordedRun& run);

/// The file of one rank as PyTorch's profiler (Kineto) writes it, for tools that read those.
[[nodiscard]] std::string to_kineto(const RecordedRun& run, int rank);

struct NcclTestsExport {
  std::string file;                    ///< The scenario with the machine.
  std::vector<std::string> overrides;  ///< As --set.
  bool sweep = false;                  ///< Besides, every power of two that nccl-tests would take.
};

/// One table of nccl-tests for each collective, type and layout of a group (ranks on nodes) in the
/// run. It has the run's sizes, each priced alone on an idle network. Groups that are not spread
/// evenly over nodes are left out and reported on `err`.
[[nodiscard]] std::string nccl_tests_tables(const RecordedRun& run, const NcclTestsExport& options,
                                            std::ostream& err);

}  // namespace shardsim
