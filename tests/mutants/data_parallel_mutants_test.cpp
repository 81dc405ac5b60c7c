#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/gradient_sync/gradient_sync_wrapper.hpp"

#include "sim/experiment/experiment.hpp"
#include "sim/run/metrics.hpp"
#include "sim/run/run.hpp"
#include "sim/verify/oracle.hpp"

#include "tests/mutants/finding.hpp"
#include "tests/mutants/score.hpp"
#include "tests/mutants/wrapped_sync.hpp"
#include "tests/mutants/wrong_numbers.hpp"

// Bugs of algorithms other than synchronous training: each trains something plausible, which only
// the reference of the same algorithm can tell from what was asked for.
namespace shardsim::test {
namespace {

using Changes = std::vector<std::string>;

// Trains `name` with `bug`, and holds it against the reference of `name` without.
Result trained_with(const std::string& name, const Changes& bug) {
  const Experiment right = compile(scenario_of(name, 4));
  const Experiment wrong = compile(scenario_of(name, 4, bug));
  const ParallelPlan& trained = wrong.plan();
  Verification oracle(right);
  FiberWorld world(wrong.world());
  RunRecord record(world, trained.options().training.steps, oracle.oracles(), true);
  world.run([&](Runtime& runtime, Communicator& everyone) {
    Mesh mesh(everyone, trained.options().mesh);
    RunRecord::Observer observer(record, holder_of(trained, mesh.place()));
    trained.train_rank(runtime, mesh, observer);
  });
  oracle.finish();
  Result result;
  result.metrics.push_back({"oracle.passed", oracle.passed()});
  result.checks.push_back(oracle_check(oracle));
  result.exit_code = static_cast<int>(oracle.passed() ? ExitCode::ok : ExitCode::check_failed);
  return result;
}

void count_change(const std::string& name, const Changes& bug) {
  const Result result = trained_with(name, bug);
  INFO(name << " with " << bug.front() << ": " << result.checks.back().detail);
  count_mutant(Detector::oracle, finder_in(result));
}

Result run_with(const std::string& name, const Faults& faults) {
  return run_scenario(scenario_of(name, 4), {.wrap_world = plant(faults)}).result;
}

void count_fault(const std::string& name, const std::string& bug, const Faults& faults) {
  const Result result = run_with(name, faults);
  INFO(name << ": " << bug);
  if (!result.checks.empty()) UNSCOPED_INFO(result.checks.back().detail);
  count_mutant(Detector::oracle, finder_in(result));
}

// Residuals of one name are kept, and forgotten before they are used.
class ForgetfulSync final : public GradientSyncWrapper {
 public:
  ForgetfulSync(GradientSync& inner, std::string name)
      : GradientSyncWrapper(inner), name_(std::move(name)) {}

  void begin_step() override {
    inner_.visit(StateKind::rank_state, [&](const StatePiece& piece) {
      if (piece.state.substr(0, name_.size()) != name_) return;
      for (std::int64_t i = 0; i < piece.values.numel(); ++i) piece.values.set(i, 0.0);
    });
    inner_.begin_step();
  }

 private:
  std::string name_;
};

Result run_forgetting(const std::string& scenario, const std::string& name) {
  return run_with_sync(scenario_of(scenario, 4), [&](const SyncOfRank& rank) {
    return std::make_unique<ForgetfulSync>(rank.inner, name);
  });
}

// Broadcasts of this label do not reach those who wait for them.
Faults lost_broadcast(const std::string& label) {
  Faults faults;
  faults.broadcast = [label](const Caller& caller, const Tensor& buffer, int root,
                             const CallOptions& options, CallSite site) {
    if (options.label != label) return caller.to.broadcast(buffer, root, options, site);
    return Work();
  };
  return faults;
}

// Averages over replicas are sums.
Faults summed_replicas() {
  Faults faults;
  faults.all_reduce = [](const Caller& caller, const Tensor& buffer, ReduceOp op,
                         const CallOptions& options, CallSite site) {
    return caller.to.all_reduce(buffer, op == ReduceOp::avg ? ReduceOp::sum : op, options, site);
  };
  return faults;
}

}  // namespace

TEST_CASE("without a bug a training that is held against its own reference passes") {
  for (const char* name : {"llama-top-k", "llama-int8", "mlp-local-sgd", "llama-diloco",
                           "llama-diloco-zero2", "llama-async-sgd", "llama-elastic"}) {
    INFO(name);
    CHECK(trained_with(name, {}).exit_code == 0);
  }
}

TEST_CASE("mutants: what compression loses is forgotten, or too much of it is lost") {
  count_change("llama-top-k", {"parallelism.error_feedback=false"});
  count_change("llama-int8", {"parallelism.error_feedback=false"});
  count_change("llama-top-k", {"parallelism.compression_ratio=0.09"});
  count_change("llama-int8", {"parallelism.compression_block_size=101"});
  count_change("llama-top-k", {"parallelism.gradient_compression=none"});
  count_change("llama-top-k", {"parallelism.bucket_bytes=100000"});
}

TEST_CASE("mutants: one of the errors of a compression is not fed back") {
  CHECK(run_forgetting("llama-int8", "no such error").exit_code == 0);
  for (const char* error : {"worker_error", "server_error"}) {
    INFO(error);
    count_mutant(Detector::oracle, finder_in(run_forgetting("llama-int8", error)));
  }
  count_mutant(Detector::oracle, finder_in(run_forgetting("llama-top-k", "residual")));
}

TEST_CASE("mutants: replicas are averaged at the wrong time, or with the wrong outer step") {
  count_change("mlp-local-sgd", {"parallelism.sync_period=3"});
  count_change("mlp-local-sgd", {"parallelism.sync_period=1"});
  count_change("llama-diloco", {"parallelism.outer_momentum=0"});
  count_change("llama-diloco-zero2", {"parallelism.outer_momentum=0"});
  count_change("llama-diloco", {"parallelism.outer_learning_rate=0.71"});
}

TEST_CASE("mutants: replicas are averaged over the wrong group, summed, or not at all") {
  for (const char* name : {"mlp-local-sgd", "llama-diloco-zero2"}) {
    count_fault(name, "neighbours", neighbours_as_group("dp_replicate"));
    count_fault(name, "sum", summed_replicas());
    count_fault(name, "none", no_replicate_reduction());
  }
}

TEST_CASE("mutants: gradients are later, or earlier, than they should be") {
  count_change("llama-async-sgd", {"parallelism.max_staleness=3"});
  count_change("llama-async-sgd", {"parallelism.max_staleness=1"});
  count_change("llama-async-sgd", {"parallelism.data_parallel=synchronous"});
  count_change("llama-async-sgd-pp2-zero1", {"parallelism.max_staleness=2"});
}

TEST_CASE("mutants: those who join lack weights or optimizer state") {
  count_fault("llama-elastic", "weights", lost_broadcast("join parameters"));
  count_fault("llama-elastic", "state", lost_broadcast("join optimizer state"));
  count_fault("llama-elastic", "progress", lost_broadcast("join progress"));
}

}  // namespace shardsim::test
