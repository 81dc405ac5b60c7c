#pragma once

#include "reports/result.hpp"
#include "reports/text_summary.hpp"

// Results as runs would produce them, one for each way a run can end. The numbers are made up but
// hold together: parts add up to the step, categories to the peak, axes to the traffic.
namespace shardsim::samples {

struct Sample {
  Result result;
  TextHeadline headline;
  std::string next_command;
};

Sample plan();
Sample verified();
Sample failed_verify();
Sample deadlock();
Sample infeasible();

}  // namespace shardsim::samples
