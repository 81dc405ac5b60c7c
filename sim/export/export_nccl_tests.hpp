#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "sim/export/recorded_run.hpp"

namespace shardsim {

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
