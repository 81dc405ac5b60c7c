#pragma once

#include <iosfwd>
#include <string>

#include "sim/app/desk/exchange/recorded_run.hpp"

namespace shardsim {

/// One table of nccl-tests for each collective, type and layout of a group (ranks on nodes) that
/// the run has used, with the sizes it has used, each priced alone on an idle network. `file`: of
/// the scenario, whose machine it is. Groups that do not lie evenly on nodes are told on `err`.
[[nodiscard]] std::string nccl_tests_tables(const RecordedRun& run, const std::string& file,
                                            const std::vector<std::string>& overrides,
                                            std::ostream& err);

}  // namespace shardsim
