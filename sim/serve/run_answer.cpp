#include "sim/serve/run_answer.hpp"

#include <functional>

#include "reports/json_writer.hpp"
#include "sim/experiment/experiment.hpp"
#include "sim/run/run.hpp"

#include "sim/serve/guarded_scenario.hpp"
#include "sim/serve/shown_run.hpp"

namespace shardsim {

namespace {

using WriteAnswer = std::function<std::string(const Experiment&, const RunOutcome&)>;

HttpAnswer simulate(const std::string& scenario, const ServeSetting& setting, const AskEnd& end,
                    const WriteAnswer& write) {
  RunHooks hooks;
  hooks.on_progress = [&end] {
    const WorkEnd why = end();
    if (why != WorkEnd::none) throw WorkEnded{why};
  };
  try {
    const Experiment experiment =
        compile(guarded_scenario(scenario, setting.folder, setting.limits));
    hooks.on_progress();
    return {.body = write(experiment, run_experiment(experiment, hooks))};
  } catch (const WorkEnded& ended) {
    return ended_answer(ended.why, setting.limits.run_s);
  } catch (const Error& error) {
    return errors_answer(error);
  }
}

}  // namespace

HttpAnswer answer_run(const std::string& scenario, const ServeSetting& setting, const AskEnd& end) {
  return simulate(scenario, setting, end, [](const Experiment&, const RunOutcome& outcome) {
    return to_json(outcome.result);
  });
}

HttpAnswer answer_show(const std::string& scenario, const ServeSetting& setting,
                       const AskEnd& end) {
  return simulate(scenario, setting, end, shown_run_json);
}

}  // namespace shardsim
