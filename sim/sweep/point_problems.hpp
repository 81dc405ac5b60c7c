#pragma once

#include <string>
#include <vector>

#include "scenarios/scenario_error.hpp"
#include "sim/sweep/point_row.hpp"
#include "sim/sweep/run_sweep.hpp"

// All that is wrong with a point, for test cases and annotations: its row keeps the first problem.
namespace shardsim {

/// "point 1: training.micro_batch_size=2 parallelism.tp=1": what tells a point from the others.
[[nodiscard]] std::string point_words(const SweepPlan& plan, std::size_t point);

/// The problems of a point that is not ok, in the sweep's file; empty for one that is ok. An
/// expectation has the place of its entry. Reads the scenario again, and runs nothing.
[[nodiscard]] std::vector<Problem> problems_of_point(const SweepPlan& plan, const PointRow& row);

/// The problems as workflow annotations, a line each, which name the point.
[[nodiscard]] std::string annotations_of_point(const SweepPlan& plan, const PointRow& row);

}  // namespace shardsim
