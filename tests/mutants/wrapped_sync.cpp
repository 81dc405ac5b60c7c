#include "tests/mutants/wrapped_sync.hpp"

#include "sim/experiment/experiment.hpp"
#include "sim/run/metrics.hpp"
#include "sim/verify/oracle.hpp"

namespace shardsim::test {

namespace {

void run_rank(const ParallelPlan& plan, const WrapSync& wrap, RunRecord& record, Runtime& runtime,
              Communicator& world) {
  Mesh mesh(world, plan.options().mesh);
  RunRecord::Observer observer(record, holder_of(plan, mesh.place()));
  const std::unique_ptr<GradientSync> sync = plan.make_sync(runtime, mesh);
  const std::unique_ptr<GradientSync> bent = wrap({*sync, plan, runtime, mesh});
  plan.train_rank(runtime, mesh, *bent, observer);
}

}  // namespace

Result run_with_sync(const Scenario& scenario, const WrapSync& wrap) {
  const Experiment experiment = compile(scenario);
  const ParallelPlan& plan = experiment.plan();
  Verification oracle(experiment);
  FiberWorld world(experiment.world());
  RunRecord record(world, scenario.execution.steps, oracle.oracles(), true);
  Result result;
  try {
    world.run([&](Runtime& runtime, Communicator& everyone) {
      run_rank(plan, wrap, record, runtime, everyone);
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

}  // namespace shardsim::test
