#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace shardsim {

struct ScheduleArguments {
  std::string file;
  std::vector<std::string> overrides;  ///< "a.b=value" each.
  bool csv = false;                    ///< Print it as a file that PyTorch and schedule_file read.
  bool lowered = false;                ///< With its sends and receives.
};

/// `shardsim schedule FILE`: the pipeline schedule of a scenario, without a run: its picture, idle
/// time and held activations with F = I = W, or the schedule as CSV. Returns 0, or 4 and says why
/// if the schedule cannot run. Throws Error for a scenario that is wrong or has no pipeline.
int command_schedule(const ScheduleArguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace shardsim
