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

// The guard has seen to it that these products fit.
bool is_long(const Experiment& experiment, const ServeLimits& limits) {
  const Scenario& scenario = experiment.scenario();
  std::int64_t passes =
      scenario.model.num_layers * scenario.training.num_microbatches * scenario.execution.steps;
  if (scenario.execution.engine == "run") passes *= scenario.system.ranks;
  return passes > limits.max_short_passes;
}

std::optional<HttpAnswer> simulate(const std::string& scenario, const ServeSetting& setting,
                                   bool may_be_long, const AskEnd& end, const WriteAnswer& write) {
  RunHooks hooks;
  hooks.on_progress = [&end] {
    const WorkEnd why = end();
    if (why != WorkEnd::none) throw WorkEnded{why};
  };
  try {
    const Experiment experiment =
        compile(guarded_scenario(scenario, setting.folder, setting.limits));
    if (!may_be_long && is_long(experiment, setting.limits)) return std::nullopt;
    hooks.on_progress();
    return HttpAnswer{.body = write(experiment, run_experiment(experiment, hooks))};
  } catch (const WorkEnded& ended) {
    return ended_answer(ended.why, setting.limits.run_s);
  } catch (const Error& error) {
    return errors_answer(error);
  }
}

}  // namespace

std::optional<HttpAnswer> answer_run(const std::string& scenario, const ServeSetting& setting,
                                     bool may_be_long, const AskEnd& end) {
  return simulate(
      scenario, setting, may_be_long, end,
      [](const Experiment&, const RunOutcome& outcome) { return to_json(outcome.result); });
}

std::optional<HttpAnswer> answer_show(const std::string& scenario, const ServeSetting& setting,
                                      bool may_be_long, const AskEnd& end) {
  return simulate(scenario, setting, may_be_long, end, shown_run_json);
}

}  // namespace shardsim
