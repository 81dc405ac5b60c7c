#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "sim/app/desk/exchange/recorded_run.hpp"

namespace shardsim {

struct NcclTestsExport {
  std::string file;                    ///< Of the scenario, whose machine it is.
  std::vector<std::string> overrides;  ///< As --set.
  bool sweep = false;                  ///< Besides, every power of two that nccl-tests would take.
};

/// One table of nccl-tests for each collective, type and layout of a group (ranks on nodes) that
/// the run has used, with the sizes it has used, each priced alone on an idle network. Groups that
/// do not lie evenly on nodes are left out and told on `err`.
[[nodiscard]] std::string nccl_tests_tables(const RecordedRun& run, const NcclTestsExport& options,
                                            std::ostream& err);

}  // namespace shardsim
