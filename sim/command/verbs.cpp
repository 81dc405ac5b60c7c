#include "sim/command/verbs.hpp"

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
