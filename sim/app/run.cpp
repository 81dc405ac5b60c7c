#include "sim/app/run.hpp"

#include <optional>
#include <utility>

#include "sim/app/metrics.hpp"
#include "sim/app/plan_of.hpp"

namespace shardsim {

namespace {

std::vector<int> traced_ranks_of(const Scenario& scenario) {
  if (scenario.output.trace.empty()) return {};
  return {scenario.output.trace_ranks.begin(), scenario.output.trace_ranks.end()};
}

std::optional<Oracle> oracle_of(const Scenario& scenario, const SharedPlan& plan) {
  if (scenario.execution.tensors != TensorMode::real) return std::nullopt;
  std::unique_ptr<Model> exact;
  if (scenario.training.precision != Precision::fp64) {
    ModelOptions options = model_options_of(scenario);
    options.dtype = DType::fp64;
    exact = make_model(options);
  }
  return Oracle(plan.sync, training_plan_of(scenario), scenario.training.global_batch_size,
                exact.get());
}

// Ranks with the same number own the same shard of gradients and state.
int replica_of(const Mesh& mesh, int zero_stage) { return zero_stage == 0 ? 0 : mesh.dp_shard(); }

void run_rank(const Scenario& scenario, const SharedPlan& plan, const TrainingPlan& training,
              const RunHooks& hooks, RunRecord& record, Runtime& runtime, Communicator& world) {
  std::unique_ptr<Communicator> wrapped;
  if (hooks.wrap_world) wrapped = hooks.wrap_world(world);
  Mesh mesh(wrapped ? *wrapped : world, mesh_shape_of(scenario.parallelism));
  const int zero_stage = scenario.parallelism.zero_stage;
  const auto sync = make_gradient_sync(zero_stage, plan.sync, runtime, mesh);
  RunRecord::Observer observer(record, world.rank(), replica_of(mesh, zero_stage));
  train(runtime, mesh, *plan.model, *sync, training, observer);
}

std::vector<RankTrace> take_traces(FiberWorld& world) {
  std::vector<RankTrace> traces;
  for (const int rank : world.options().traced_ranks) {
    RankTrace& trace = *world.engine().rank(rank).trace();
    const Cluster& cluster = world.options().cluster;
    trace.name += " (node " + std::to_string(cluster.node_of(rank)) + ", gpu " +
                  std::to_string(rank % cluster.gpus_per_node) + ")";
    traces.push_back(std::move(trace));
  }
  return traces;
}

// The verdict: what is wrong first, in the order of the exit codes' gravity.
ExitCode verdict(const Result& result) {
  if (result.diagnosis) return ExitCode::communication;
  bool failed = false;
  for (const Check& check : result.checks) {
    if (check.passed) continue;
    if (check.name == "memory") return ExitCode::does_not_fit;
    failed = true;
  }
  for (const ExpectationResult& expectation : result.expectations) failed |= !expectation.passed;
  return failed ? ExitCode::check_failed : ExitCode::ok;
}

}  // namespace

RunOutcome run_scenario(const Scenario& scenario, const RunHooks& hooks) {
  const SharedPlan plan(scenario);
  const TrainingPlan training = training_plan_of(scenario);
  std::optional<Oracle> oracle = oracle_of(scenario, plan);
  FiberOptions options = fiber_options_of(scenario);
  options.traced_ranks = traced_ranks_of(scenario);
  options.interleaving_seed = hooks.interleaving_seed;
  options.on_progress = hooks.on_progress;
  FiberWorld world(std::move(options));
  RunRecord record(world.engine(), scenario.execution.steps, oracle ? &*oracle : nullptr);

  RunOutcome outcome;
  Result& result = outcome.result;
  result.scenario_json = scenario.resolved_json;
  result.warnings = scenario.warnings;
  result.assumptions = assumptions_of(scenario);
  try {
    world.run([&](Runtime& runtime, Communicator& everyone) {
      run_rank(scenario, plan, training, hooks, record, runtime, everyone);
    });
    if (oracle) oracle->finish();
    result.metrics = metrics_of(scenario, *plan.model, world, record, oracle ? &*oracle : nullptr);
    result.checks.push_back(conservation_check(world));
    result.checks.push_back(memory_check(world));
    if (oracle) result.checks.push_back(oracle_check(*oracle));
    result.expectations = judge(scenario.expect, result);
  } catch (const CommunicationError& error) {
    result.diagnosis = error.diagnosis();
  }
  outcome.traces = take_traces(world);
  result.exit_code = static_cast<int>(verdict(result));
  return outcome;
}

}  // namespace shardsim
