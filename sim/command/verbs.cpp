#include "sim/command/verbs.hpp"

#include "sim/command/command_calibrate.hpp"
#include "sim/command/command_check.hpp"
#include "sim/command/command_collective.hpp"
#include "sim/command/command_completion.hpp"
#include "sim/command/command_demo.hpp"
#include "sim/command/command_diff.hpp"
#include "sim/command/command_doctor.hpp"
#include "sim/command/command_explain.hpp"
#include "sim/command/command_export.hpp"
#include "sim/command/command_fix.hpp"
#include "sim/command/command_import.hpp"
#include "sim/command/command_init.hpp"
#include "sim/command/command_merge.hpp"
#include "sim/command/command_plan.hpp"
#include "sim/command/command_presets.hpp"
#include "sim/command/command_run.hpp"
#include "sim/command/command_schedule.hpp"
#include "sim/command/command_sweep.hpp"
#include "sim/command/command_validate.hpp"

namespace shardsim {

std::vector<Verb> all_verbs() {
  return {
      run_verb(),        demo_verb(),   init_verb(),      fix_verb(),      plan_verb(),
      sweep_verb(),      merge_verb(),  diff_verb(),      import_verb(),   export_verb(),
      presets_verb(),    schema_verb(), check_verb(),     schedule_verb(), explain_verb(),
      collective_verb(), doctor_verb(), calibrate_verb(), validate_verb(), completion_verb(),
      man_verb(),
  };
}

}  // namespace shardsim
