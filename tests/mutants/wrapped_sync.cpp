#include "tests/mutants/wrapped_sync.hpp"

#include "sim/experiment/experiment.hpp"
#include "sim/run/metrics.hpp"
#include "sim/verify/oracle.hpp"

namespace shardsim::test {

namespace {

// Either may be empty.
struct Wraps {
  WrapSync sync;
  WrapModel model;
};

void run_rank(const ParallelPlan& plan, const Wraps& wraps, RunRecord& record, Runtime& runtime,
              Communicator& world) {
  Mesh mesh(world, plan.options().mesh);
  RunRecord::Observer observer(record, holder_of(plan, mesh.place()));
  const std::unique_ptr<GradientSync> sync = plan.make_sync(runtime, mesh);
  const SyncOfRank right{*sync, plan, runtime, mesh};
  const std::unique_ptr<GradientSync> bent = wraps.sync ? wraps.sync(right) : nullptr;
  const std::unique_ptr<Model> model = wraps.model ? wraps.model(right) : nullptr;
  plan.train_rank(runtime, mesh, bent ? *bent : *sync, observer, model.get());
}

Result run_wrapped(const Scenario& scenario, const Wraps& wraps) {
  const Experiment experiment = compile(scenario);
  const ParallelPlan& plan = experiment.plan();
  Verification oracle(experiment);
  FiberWorld world(experiment.world());
  RunRecord record(world, scenario.execution.steps, oracle.oracles(), true);
  Result result;
  try {
    world.run([&](Runtime& runtime, Communicator& everyone) {
      run_rank(plan, wraps, record, runtime, everyone);
    });
  } catch (const CommunicationError& error) {
    result.diagnosis = error.diagnosis();
    result.exit_code = static_cast<int>(ExitCode::communication);
    return result;
  }
  oracle.finish();
  result.metrics.push_back({"oracle.passed", oracle.passed()});
  result.checks.push_back(oracle_check(oracle));
  result.exit_code = static_cast<int>(oracle.passed() ? ExitCode::ok : ExitCode::check_failed);
  return result;
}

}  // namespace

Result run_with_sync(const Scenario& scenario, const WrapSync& wrap) {
  return run_wrapped(scenario, {wrap, {}});
}

Result run_with_model(const Scenario& scenario, const WrapModel& wrap) {
  return run_wrapped(scenario, {{}, wrap});
}

}  // namespace shardsim::test
