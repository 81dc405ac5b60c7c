#include "sim/app/command/verbs.hpp"

#include "sim/app/calibrate/command_calibrate.hpp"
#include "sim/app/collective/command_collective.hpp"
#include "sim/app/command_check.hpp"
#include "sim/app/command_doctor.hpp"
#include "sim/app/command_presets.hpp"
#include "sim/app/command_run.hpp"
#include "sim/app/command_schedule.hpp"
#include "sim/app/desk/diff/command_diff.hpp"
#include "sim/app/desk/exchange/command_export.hpp"
#include "sim/app/desk/exchange/command_import.hpp"
#include "sim/app/desk/search/command_plan.hpp"
#include "sim/app/desk/start/command_completion.hpp"
#include "sim/app/desk/start/command_demo.hpp"
#include "sim/app/desk/start/command_fix.hpp"
#include "sim/app/desk/start/command_init.hpp"
#include "sim/app/desk/sweep/command_merge.hpp"
#include "sim/app/desk/sweep/command_sweep.hpp"
#include "sim/app/explore/command_explain.hpp"
#include "sim/app/validate/command_validate.hpp"

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
