#include "sim/run/faults/fault_warnings.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "reports/units.hpp"

namespace shardsim {

namespace {

// Below it, a training does not end in any useful time.
constexpr double kHopelessGoodput = 0.01;

}  // namespace

std::vector<std::string> fault_warnings(const FaultSpec& faults, const Result& result) {
  std::vector<std::string> warnings;
  const double step_s = result.number(metric::kStepTimeS).value_or(0.0);
  double period_s = 0.0;
  for (const auto& link : faults.flapping_links) period_s = std::max(period_s, link.period_s);
  if (step_s < period_s) {
    warnings.push_back(fmt::format(
        "links flap every {} and a step takes {}: how much of an outage the step that is reported "
        "meets depends on faults.flapping_links[].phase_s, and so do days and costs; plan several "
        "phases before drawing conclusions",
        format_seconds(period_s), format_seconds(step_s)));
  }
  const auto goodput = result.number(metric::kGoodputFraction);
  if (!goodput) return warnings;
  if (*goodput < kHopelessGoodput) {
    warnings.push_back(fmt::format(
        "failures come faster than work can be kept: the goodput is {:.2g} %, and the training "
        "practically never ends; see faults.gpu_mtbf_hours, checkpoint_write_s and restart_s",
        100.0 * *goodput));
  }
  const double interval_s = result.number(metric::kGoodputCheckpointIntervalS).value_or(step_s);
  if (interval_s < step_s) {
    warnings.push_back(fmt::format(
        "faults.checkpoint_interval_s is {}, less than a step of {}: checkpoints are written "
        "between steps, so they cannot be more frequent than that",
        format_seconds(interval_s), format_seconds(step_s)));
  }
  return warnings;
}

}  // namespace shardsim
