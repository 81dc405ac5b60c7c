#include "sim/app/command/verbs.hpp"

#include "sim/app/calibrate/command_calibrate.hpp"
#include "sim/app/collective/command_collective.hpp"
#include "sim/app/command_check.hpp"
#include "sim/app/command_doctor.hpp"
#include "sim/app/command_presets.hpp"
#include "sim/app/command_run.hpp"
#include "sim/app/command_schedule.hpp"
#include "sim/app/desk/diff/command_diff.hpp"
#include "sim/app/desk/sweep/command_merge.hpp"
#include "sim/app/desk/sweep/command_sweep.hpp"
#include "sim/app/explore/command_explain.hpp"
#include "sim/app/validate/command_validate.hpp"

namespace shardsim {

std::vector<Verb> all_verbs() {
  return {
      run_verb(),        check_verb(),     sweep_verb(),    merge_verb(),   diff_verb(),
      collective_verb(), calibrate_verb(), schedule_verb(), presets_verb(), doctor_verb(),
      explain_verb(),    schema_verb(),    validate_verb(),
  };
}

}  // namespace shardsim
