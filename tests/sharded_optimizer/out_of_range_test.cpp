#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/sharded_optimizer/fixture.hpp"

// Numbers that mean nothing are refused before anything is made, with the field's name: what a
// scenario cannot say, a program of the user's own can.
namespace shardsim::test {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The arguments that a caller of the library fills in.
struct Arguments {
  ParallelOptions problem;
  OptimizerOptions optimizer;
  OptimizationOptions options;
};

struct Case {
  const char* field;
  std::function<void(Arguments&)> change;
};

struct Refusal {
  std::string code = "none";
  std::string message;
};

template <class Call>
Refusal refusal_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {  // A world says of which rank, too.
    CHECK_FALSE(error.fix().empty());
    return {error.code(), error.what()};
  }
  return {};
}

Arguments good_arguments(const Setup& setup) {
  return {problem_of(setup), setup.optimizer_options, setup.options};
}

// By the plan alone.
Refusal plan_refusal(const Arguments& arguments) {
  return refusal_of([&] {
    const auto optimizer = make_optimizer("adam", arguments.optimizer);
    const ParallelPlan plan(arguments.problem, *optimizer);
  });
}

// By a sharded optimizer on ranks, of which one step trains.
Refusal optimizer_refusal(const Setup& setup, const Arguments& arguments) {
  return refusal_of([&] {
    FiberWorld world(world_of(setup));
    world.run([&](Runtime& runtime, Communicator& communicator) {
      ShardedOptimizer optimizer(runtime, communicator, arguments.problem,
                                 make_optimizer("adam", arguments.optimizer), setup.choice, {},
                                 arguments.options);
      optimizer.step();
    });
  });
}

// Field after field: those the plan refuses, too, and those of the sharded optimizer alone.
void check_refusals(const char* code, const std::vector<Case>& cases, bool by_plan = true) {
  for (const char* strategy : {"ddp", "fsdp"}) {
    const Setup setup = setup_of(strategy, 2);
    CHECK(optimizer_refusal(setup, good_arguments(setup)).code == "none");
    for (const Case& c : cases) {
      Arguments arguments = good_arguments(setup);
      c.change(arguments);
      INFO(strategy << ": " << c.field);
      const Refusal refusal = optimizer_refusal(setup, arguments);
      CHECK(refusal.code == code);
      CHECK(refusal.message.find(c.field) != std::string::npos);
      CHECK(plan_refusal(arguments).code == (by_plan ? code : "none"));
    }
  }
}

}  // namespace

TEST_CASE("Range: a training plan that is no batch, no share or no norm is refused", "[range]") {
  const auto with = [](const char* field, auto member, auto value) {
    return Case{field, [=](Arguments& a) { a.problem.training.*member = value; }};
  };
  using T = TrainingPlan;
  check_refusals("E0791",
                 {with("steps", &T::steps, -1), with("micro_batch_size", &T::micro_batch_size, 0),
                  with("micro_batch_size", &T::micro_batch_size, -1),
                  with("num_microbatches", &T::num_microbatches, 0),
                  with("num_microbatches", &T::num_microbatches, -1),
                  // One in the int of a schedule's shape.
                  with("num_microbatches", &T::num_microbatches, (1LL << 32) + 1),
                  with("ignore_fraction", &T::ignore_fraction, -0.5),
                  with("ignore_fraction", &T::ignore_fraction, 1.0),
                  with("ignore_fraction", &T::ignore_fraction, 1.5),
                  with("ignore_fraction", &T::ignore_fraction, kNan),
                  with("max_grad_norm", &T::max_grad_norm, -1.0),
                  with("max_grad_norm", &T::max_grad_norm, kNan),
                  with("max_grad_norm", &T::max_grad_norm, kInfinity)});
  // The rule of loss scaling has a code of its own.
  check_refusals("E0786", {{"growth interval", [](Arguments& a) {
                              a.problem.training.loss_scaling.growth_interval = 0;
                            }}});
}

TEST_CASE("Range: counts of units and reductions below 0 are refused, and integers as dtypes",
          "[range]") {
  const auto with = [](const char* field, auto member, auto value) {
    return Case{field, [=](Arguments& a) { a.problem.sync.*member = value; }};
  };
  using S = SyncPlan;
  check_refusals("E0792", {with("prefetch_units", &S::prefetch_units, -1),
                           with("prefetch_units", &S::prefetch_units, -3),
                           with("reductions_in_flight", &S::reductions_in_flight, -1),
                           with("reductions_in_flight", &S::reductions_in_flight, -3),
                           with("weight_dtype", &S::weight_dtype, DType::int32),
                           with("master_dtype", &S::master_dtype, DType::int32),
                           with("gradient_dtype", &S::gradient_dtype, DType::int64)});
}

TEST_CASE("Range: settings that no optimizer can use are refused", "[range]") {
  const auto with = [](const char* field, auto member, double value) {
    return Case{field, [=](Arguments& a) { a.optimizer.*member = value; }};
  };
  using O = OptimizerOptions;
  std::vector<Case> cases = {with("epsilon", &O::epsilon, 0.0)};
  for (const double none : {kNan, kInfinity, -kInfinity, -0.5}) {
    cases.push_back(with("learning_rate", &O::learning_rate, none));
    cases.push_back(with("weight_decay", &O::weight_decay, none));
    cases.push_back(with("epsilon", &O::epsilon, none));
  }
  for (const double none : {kNan, -0.5, 1.0}) {
    cases.push_back(with("momentum", &O::momentum, none));
    cases.push_back(with("beta1", &O::beta1, none));
    cases.push_back(with("beta2", &O::beta2, none));
    cases.push_back(with("rms_alpha", &O::rms_alpha, none));
  }
  check_refusals("E0605", cases);
}

TEST_CASE("Range: sizes of buckets and of the mesh below their least are refused", "[range]") {
  check_refusals("E0794",
                 {{"bucket_bytes", [](Arguments& a) { a.problem.bucket_bytes = 0; }},
                  {"first_bucket_bytes", [](Arguments& a) { a.problem.first_bucket_bytes = -1; }},
                  {"num_chunks", [](Arguments& a) { a.problem.num_chunks = 0; }}});
  const Setup setup = setup_of("ddp", 2);
  for (int MeshShape::*axis :
       {&MeshShape::dp_shard, &MeshShape::dp_replicate, &MeshShape::tp, &MeshShape::pp}) {
    for (const int size : {0, -1}) {  // A sharded optimizer makes its mesh itself.
      Arguments arguments = good_arguments(setup);
      arguments.problem.mesh.*axis = size;
      CHECK(plan_refusal(arguments).code == "E0794");
    }
  }
  Arguments arguments = good_arguments(setup);
  arguments.problem.minimum_group_numel = -1;  // As E0774 where it is the configuration's.
  CHECK(plan_refusal(arguments).code == "E0794");
}

TEST_CASE("Range: rules of stopping that never or always hold by mistake are refused", "[range]") {
  const auto with = [](const char* field, auto member, auto value) {
    return Case{field, [=](Arguments& a) { a.options.early_stopping.*member = value; }};
  };
  using E = EarlyStopping;
  std::vector<Case> cases = {with("patience", &E::patience, -1),
                             with("validation_patience", &E::validation_patience, -1)};
  for (const double none : {kNan, kInfinity, -1.0}) {
    cases.push_back(with("minimum_improvement", &E::minimum_improvement, none));
    cases.push_back(with("minimum_change", &E::minimum_change, none));
  }
  check_refusals("E0793", cases, false);
  std::vector<Case> limits = {
      {"at most -1", [](Arguments& a) { a.options.maximum_iterations = -1; }}};
  for (const double none : {kNan, kInfinity, -1.0}) {
    limits.push_back({"tolerance", [=](Arguments& a) { a.options.tolerance = none; }});
  }
  check_refusals("E0783", limits, false);
}

TEST_CASE("Range: a training loop that was given a plan of its own refuses it, too", "[range]") {
  const Setup setup = setup_of("ddp", 1);
  const auto optimizer = make_optimizer("sgd", {});
  const ParallelPlan plan(problem_of(setup), *optimizer);
  const auto refusal = [&](const TrainingPlan& training) {
    return refusal_of([&] {
      FiberWorld world(world_of(setup));
      world.run([&](Runtime& runtime, Communicator& communicator) {
        Mesh mesh(communicator, {});
        const auto sync = plan.make_sync(runtime, mesh);
        const StagePlan stage{.model = &plan.whole(), .schedule = &plan.schedule()};
        TrainingObserver observer;
        const TrainingSession session(runtime, mesh, stage, *sync, {}, training, observer);
      });
    });
  };
  TrainingPlan training = setup.training;
  CHECK(refusal(training).code == "none");
  training.ignore_fraction = 1.5;
  CHECK(refusal(training).code == "E0791");
}

TEST_CASE("Range: the least and the most that mean something are taken", "[range]") {
  const Setup setup = setup_of("fsdp", 2, "gpt2");
  const auto taken = [&](const std::function<void(Arguments&)>& change) {
    Arguments arguments = good_arguments(setup);
    change(arguments);
    return optimizer_refusal(setup, arguments).code;
  };
  CHECK(taken([](Arguments& a) {
          a.problem.training.steps = 0;
          a.problem.training.micro_batch_size = 1;
          a.problem.training.num_microbatches = 1;
          a.problem.training.ignore_fraction = 0.0;
          a.problem.training.max_grad_norm = 0.0;
          a.problem.sync.prefetch_units = 0;
          a.problem.sync.reductions_in_flight = 0;
          a.problem.bucket_bytes = 1;
          a.problem.first_bucket_bytes = 1;
        }) == "none");
  CHECK(taken([](Arguments& a) {
          a.problem.training.ignore_fraction = 0.875;
          a.problem.training.max_grad_norm = std::numeric_limits<double>::max();
          a.optimizer.learning_rate = 0.0;
          a.optimizer.weight_decay = 0.0;
          a.optimizer.beta1 = 0.0;
          a.optimizer.beta2 = 0.0;
        }) == "none");
}

}  // namespace shardsim::test
