#pragma once

#include <vector>

#include "reports/result.hpp"
#include "reports/run_detail.hpp"
#include "sim/experiment/experiment.hpp"
#include "sim/run/detail/rank_recorder.hpp"
#include "sim/run/run_record.hpp"

// Tables of the rank that ends last.
namespace shardsim {

/// Axes that sent or waited. In whole picoseconds they sum to the times of the result.
[[nodiscard]] std::vector<AxisComm> axis_table(const RankRecorder& recorder,
                                               const RunRecord& record, const Result& result);

/// The longest operations first.
[[nodiscard]] Roofline roofline_of(const RankRecorder& recorder, const Experiment& experiment);

}  // namespace shardsim
