#include "sim/verify/oracle.hpp"

#include <string>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/experiment/experiment.hpp"
#include "sim/run/run.hpp"
#include "sim/verify/reference.hpp"

#include "tests/mutants/wrong_numbers.hpp"

// The oracle itself: it must not pass on what it was not shown, nor on noise.
namespace shardsim {
namespace {

// All steps of `plan`, on whole batches; those whose gradients overflow are skipped.
std::vector<ReferenceStep> train_reference(const SyncPlan& sync, const TrainingPlan& plan,
                                           const GlobalBatch& global_batch) {
  ReferenceTraining training(sync, plan, global_batch, Batches::whole);
  std::vector<ReferenceStep> steps;
  for (std::int64_t step = 0; step < plan.steps; ++step) {
    steps.push_back(training.compute_gradients());
    training.finish_step(plan.loss_scaling.acts() && steps.back().overflowed, steps.back());
  }
  return steps;
}

Scenario load(const std::string& name, const std::vector<std::string>& overrides = {}) {
  return load_scenario("scenarios/" + name + ".json", overrides);
}

// Shows the reference's own values, but leaves out, repeats or scales some.
class Recital final : public GradientSync {
 public:
  // nudged: by less than the bound.
  enum class Flaw { none, gap, overlap, silence, scaled, off_by_1e4, one_ulp, nudged };
  Recital(const SyncPlan& plan, const ReferenceStep& step, Flaw flaw,
          std::string flawed_kind = "gradient")
      : plan_(plan), step_(step), flaw_(flaw), flawed_kind_(std::move(flawed_kind)) {}

  Tensor weight(int) override { return {}; }
  Tensor gradient(int) override { return {}; }
  void gradient_ready(int) override {}
  void begin_step() override {}
  void begin_weight_gradients(int, bool) override {}
  void before_forward(int) override {}
  void after_forward(int) override {}
  void before_backward(int) override {}
  void after_backward(int) override {}
  void finish_gradients() override {}
  bool found_inf() override { return false; }
  double gradient_norm(NormType) override { return 0.0; }
  void apply_optimizer(double, std::int64_t) override {}

  void visit(StateKind kind, const StateVisitor& visitor) const override {
    if (flaw_ == Flaw::silence) return;
    if (kind == StateKind::gradient) return show(kind, "", "gradient", visitor);
    if (kind == StateKind::parameter) return show(kind, "", "parameter", visitor);
    for (const std::string_view name : plan_.optimizer->state_names()) {
      show(kind, name, std::string(name), visitor);
    }
    if (step_.kinds.count("master") > 0) show(kind, "master", "master", visitor);
  }

 private:
  void show(StateKind kind, std::string_view state, const std::string& key,
            const StateVisitor& visitor) const {
    const ReferenceTensors& tensors = step_.kinds.find(key)->second;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      std::vector<double> values = tensors[i];
      const bool flawed = i == 2 && key == flawed_kind_;
      if (flawed && flaw_ == Flaw::gap) values.pop_back();
      if (flawed && flaw_ == Flaw::scaled) {
        for (double& value : values) value *= 3.0;
      }
      if (flawed && flaw_ == Flaw::off_by_1e4) {
        for (double& value : values) value *= 1.0 + 1e-4;
      }
      if (flawed && flaw_ == Flaw::one_ulp) {
        for (double& value : values) value *= 1.0 + 0x1p-7;
      }
      if (flawed && flaw_ == Flaw::nudged) values.back() *= 1.0 + 1e-12;
      const Tensor tensor =
          Tensor::allocate(nullptr, MemoryCategory::params,
                           {static_cast<std::int64_t>(values.size())}, DType::fp64, false);
      store(tensor, values);
      visitor({kind, state, static_cast<int>(i), 0, tensor});
      if (flawed && flaw_ == Flaw::overlap) visitor({kind, state, static_cast<int>(i), 0, tensor});
    }
  }

  const SyncPlan& plan_;
  const ReferenceStep& step_;
  Flaw flaw_;
  std::string flawed_kind_;
};

// Operations of one rank that trains on the whole batch.
int operations_of(const Scenario& scenario) {
  const Experiment experiment = compile(scenario);
  const ParallelOptions& options = experiment.plan().options();
  int operations = 0;
  ReferenceTraining training(options.sync, options.training, scenario.training.global_batch_size,
                             Batches::whole, [&operations] { ++operations; });
  for (std::int64_t step = 0; step < options.training.steps; ++step) {
    ReferenceStep record = training.compute_gradients();
    training.finish_step(false, record);
  }
  return operations;
}

struct Reciter {
  int rank = 0;
  Recital::Flaw flaw = Recital::Flaw::none;
  std::string kind = "gradient";
  double loss_factor = 1.0;
};

// The oracle's verdict on data-parallel ranks that recite the reference with their flaws. The
// oracle hears them in this order.
std::pair<bool, std::string> judge(const std::vector<Reciter>& ranks,
                                   const std::string& precision = "fp64") {
  const Scenario scenario =
      load("verify-llama-ddp",
           {"execution.steps=1", "training.precision=" + precision, "training.optimizer=adamw"});
  const Experiment experiment = compile(scenario);
  const TrainingPlan& training = experiment.options().training;
  const std::int64_t batch = scenario.training.global_batch_size;
  const SyncPlan& sync = experiment.plan().options().sync;
  const auto reference = train_reference(sync, training, batch);
  std::unique_ptr<Model> exact;
  if (precision != "fp64") {
    ModelOptions options = experiment.options().model;
    options.dtype = DType::fp64;
    exact = make_model(options);
  }
  Oracle oracle(sync, training, batch, std::move(exact), static_cast<int>(ranks.size()));
  for (const Reciter& reciter : ranks) {
    const Recital recital(sync, reference.front(), reciter.flaw, reciter.kind);
    const Oracle::Holder holder{.rank = reciter.rank, .part = experiment.plan().part({})};
    oracle.check_gradients(0, holder, recital);
    oracle.check_state(0, holder, recital, reciter.loss_factor * reference.front().loss);
  }
  oracle.finish();
  return {oracle.passed(), oracle.detail()};
}

std::pair<bool, std::string> judge(Recital::Flaw flaw) { return judge({{.flaw = flaw}}); }

}  // namespace

TEST_CASE("progress is told of the reference, too, at each of its operations") {
  for (const char* precision : {"fp64", "fp32"}) {
    const Scenario scenario =
        load("verify-mlp-ddp",
             {"system.nodes=1", "system.gpus_per_node=1", "training.global_batch_size=2",
              std::string("training.precision=") + precision});
    int told = 0;
    CHECK(run_scenario(scenario, {.on_progress = [&told] { ++told; }}).result.exit_code == 0);
    // At fp32, one at fp64 trains beside it. Only every sixteenth of the ranks' own operations is
    // told.
    const int references = scenario.training.precision == Precision::fp64 ? 1 : 2;
    CHECK(told > references * operations_of(scenario));
  }
}

TEST_CASE("the oracle passes what it is shown whole and right") {
  const auto [passed, detail] = judge(Recital::Flaw::none);
  INFO(detail);
  CHECK(passed);
}

TEST_CASE("the oracle fails on elements that nobody shows, or that are shown twice") {
  for (const Recital::Flaw flaw :
       {Recital::Flaw::gap, Recital::Flaw::overlap, Recital::Flaw::silence}) {
    const auto [passed, detail] = judge(flaw);
    INFO(detail);
    CHECK(!passed);
    CHECK(detail.find("shards do not cover, or overlap") != std::string::npos);
  }
}

TEST_CASE("the oracle names the tensor and the factor") {
  const auto [passed, detail] = judge(Recital::Flaw::scaled);
  INFO(detail);
  CHECK(!passed);
  CHECK(detail.find("step 0, rank 0: gradient of blocks.0.") == 0);
  CHECK(detail.find("is 3 times that of one rank") != std::string::npos);
}

// All ranks alike, so that no rank differs from another.
TEST_CASE("the oracle names a loss that is wrong with right gradients, in every precision") {
  for (const char* precision : {"fp64", "fp32", "bf16"}) {
    INFO(precision);
    const Reciter wrong{.rank = 4, .loss_factor = 1.25};
    const auto [passed, detail] = judge({wrong, wrong}, precision);
    INFO(detail);
    CHECK_FALSE(passed);
    CHECK(detail.find("step 0, rank 4: loss ") == 0);
    CHECK(detail.find("one rank on the whole batch has ") != std::string::npos);
    CHECK(detail.find("(factor 1.25)") != std::string::npos);
    CHECK(judge({{.rank = 4}}, precision).second.find(" and 1 losses of 1 steps equal one rank") !=
          std::string::npos);
  }
}

TEST_CASE(
    "the oracle names the tensor of which replicas differ, though both are within its bound") {
  using Flaw = Recital::Flaw;
  const Reciter right{.rank = 0};
  const Reciter also_right{.rank = 3};
  CHECK(judge({right, also_right}).first);
  CHECK(judge({{.rank = 5, .flaw = Flaw::nudged}}).first);  // Alone it is as good as right.
  const std::pair<const char*, const char*> cases[] = {
      {"gradient",
       "step 0: ranks 0 and 5 hold replicas of gradient of blocks.0.attention.wq "
       "that differ"},
      {"parameter",
       "step 0: ranks 0 and 5 hold replicas of parameter of "
       "blocks.0.attention.wq that differ"}};
  for (const auto& [kind, sentence] : cases) {
    const Reciter nudged{.rank = 5, .flaw = Flaw::nudged, .kind = kind};
    // Whoever is heard first, the lowest rank is named, and the lowest that differs from it.
    for (const std::vector<Reciter>& order :
         {std::vector{right, also_right, nudged}, std::vector{nudged, also_right, right},
          std::vector{also_right, nudged, right}}) {
      const auto [passed, detail] = judge(order);
      CHECK_FALSE(passed);
      CHECK(detail == sentence);
    }
  }
  // The first in the order of a step, of the ranks' two differences.
  const Reciter later{.rank = 1, .flaw = Flaw::nudged, .kind = "parameter"};
  const Reciter sooner{.rank = 5, .flaw = Flaw::nudged};
  CHECK(judge({later, sooner, right}).second == cases[0].second);
}

TEST_CASE("below fp64, state is judged by the gradients that all ranks have shown, as precisely") {
  using Flaw = Recital::Flaw;
  for (const char* precision : {"fp32", "bf16"}) {
    INFO(precision);
    CHECK(judge({{.rank = 0}, {.rank = 1}}, precision).first);
    // Gradients are noise in bf16 at the third digit; what the optimizer makes of them is not.
    for (const char* kind : {"exp_avg", "exp_avg_sq"}) {
      const auto [passed, detail] =
          judge({{.rank = 0}, {.rank = 1, .flaw = Flaw::off_by_1e4, .kind = kind}}, precision);
      INFO(detail);
      CHECK_FALSE(passed);
      CHECK(detail.find(std::string("step 0, rank 1: ") + kind + " of blocks.0.") == 0);
    }
    // Weights that were not refreshed from their masters, or not right: less than noise.
    const auto [passed, detail] = judge({{.rank = 0, .flaw = Flaw::one_ulp, .kind = "parameter"},
                                         {.rank = 1, .flaw = Flaw::one_ulp, .kind = "parameter"}},
                                        precision);
    INFO(detail);
    CHECK_FALSE(passed);
    const bool has_masters = std::string(precision) == "bf16";
    CHECK((detail.find("but its master, ") != std::string::npos) == has_masters);
    // All ranks alike, which is no difference between replicas.
    const Reciter wrong{.rank = 0, .flaw = Flaw::scaled};
    const Reciter wrong_too{.rank = 1, .flaw = Flaw::scaled};
    CHECK(judge({wrong, wrong_too}, precision).second.find("gradient of blocks.0.") !=
          std::string::npos);
  }
}

TEST_CASE(
    "the oracle finds a step that is skipped or taken by the ranks alone, and a wrong scale") {
  // The first three steps overflow.
  const Scenario scenario = load("verify-gpt-tp2-pp2-dp2-fp16", {"execution.steps=4"});
  const Experiment experiment = compile(scenario);
  const TrainingPlan& training = experiment.options().training;
  const std::int64_t batch = scenario.training.global_batch_size;
  const SyncPlan& sync = experiment.plan().options().sync;
  const auto reference = train_reference(sync, training, batch);
  REQUIRE(reference[2].skipped);
  REQUIRE_FALSE(reference[3].skipped);
  CHECK(reference[2].next_scale == training.loss_scaling.initial_scale / 8);
  CHECK(reference[2].kinds.at("parameter") == reference[1].kinds.at("parameter"));
  const auto verdict = [&](std::size_t step, bool skipped, double next_scale) {
    Oracle oracle(sync, training, batch, nullptr, 1);
    oracle.check_decision(static_cast<std::int64_t>(step), 5, skipped, next_scale);
    return oracle.passed() ? "passed" : oracle.detail();
  };
  CHECK(verdict(2, true, reference[2].next_scale) == "passed");
  CHECK(verdict(3, false, reference[3].next_scale) == "passed");
  CHECK(verdict(2, false, 1048576.0) ==
        "step 2, rank 5: the rank takes the step and goes on with loss scale 1048576; one rank on "
        "the whole batch skips the step and goes on with loss scale 131072");
  CHECK(verdict(2, true, 1048576.0) != "passed");
  CHECK(verdict(3, true, reference[3].next_scale) != "passed");
}

TEST_CASE("where the order of sums decides on an overflow, ranks may do either") {
  // One device with eight microbatches, and layouts: their sums over some samples overflow in steps
  // in which the sum over all does not, at these seeds and many others.
  const std::vector<std::string> alone = {
      "parallelism.tp=1",       "parallelism.pp=1",         "system.nodes=1",
      "system.gpus_per_node=1", "parallelism.zero_stage=0", "training.num_microbatches=8"};
  bool was_open = false;
  const auto verify = [&](std::vector<std::string> overrides, int seed) {
    overrides.push_back("execution.seed=" + std::to_string(seed));
    const Scenario scenario = load("verify-gpt-tp2-pp2-dp2-fp16", overrides);
    const Result result = run_scenario(scenario, {}).result;
    const Check& oracle = result.checks.back();
    INFO("seed " << seed << ": " << oracle.detail);
    CHECK(oracle.passed);
    was_open = was_open || oracle.detail.find("hung on the order of sums") != std::string::npos;
  };
  for (const int seed : {1, 11, 21, 56, 57}) verify({}, seed);
  for (int seed = 1; seed <= 10; ++seed) verify(alone, seed);
  CHECK(was_open);
}

TEST_CASE("gradients that may or may not overflow are judged all the same") {
  // At this scale the sum over all is just inside the range of fp16, the first step open.
  const Scenario scenario =
      load("verify-gpt-tp2-pp2-dp2-fp16",
           {"training.loss_scaling=static", "training.loss_scale=262144", "execution.steps=1"});
  const Result right = run_scenario(scenario).result;
  INFO(right.checks.back().detail);
  CHECK(right.exit_code == 0);
  CHECK(right.checks.back().detail.find("hung on the order of sums") != std::string::npos);
  CHECK(*right.number("oracle.max_rel_error.grads") > 0.0);
  using test::plant;
  CHECK(run_scenario(scenario, {.wrap_world = plant(test::double_averaging())}).result.exit_code ==
        1);
  CHECK(run_scenario(scenario, {.wrap_world = plant(test::lost_contribution())}).result.exit_code ==
        1);
}

TEST_CASE("narrower precisions are verified within their own noise") {
  for (const char* precision : {"fp32", "fp16", "bf16"}) {
    for (const char* name : {"verify-llama-ddp", "verify-llama-zero2", "verify-llama-hsdp"}) {
      const Scenario scenario =
          load(name, {std::string("training.precision=") + precision, "training.optimizer=adamw"});
      const Result result = run_scenario(scenario).result;
      INFO(precision << " " << name << ": " << result.checks.back().detail);
      CHECK(result.exit_code == 0);
    }
  }
}

// One device that cuts its batch drifts away from one that does not: step by step, they are equal.
TEST_CASE("rounding that grows from step to step is no fault of a strategy") {
  for (const char* optimizer : {"adam", "adamw", "rmsprop"}) {
    for (const char* epsilon : {"1e-8", "1e-6", "0.0003"}) {
      const Scenario scenario =
          load("verify-gpt-zero1",
               {"system.nodes=1", "system.gpus_per_node=1", "training.num_microbatches=16",
                "training.weight_decay=0.1", std::string("training.optimizer=") + optimizer,
                std::string("training.epsilon=") + epsilon, "execution.steps=10"});
      INFO(optimizer << ", epsilon " << epsilon);
      CHECK(scenario.warnings.empty());
      CHECK(run_scenario(scenario).result.exit_code == 0);
    }
  }
}

TEST_CASE("a run that is all rounding noise is not called proven") {
  // bf16 weights, 30 steps, a learning rate of 1: ranks that share samples drift far from the
  // reference. Other ranks have activations with the same bits, and all is proven.
  const std::vector<std::string> wild = {"training.precision=bf16", "execution.steps=30",
                                         "training.learning_rate=1"};
  const Result shared = run_scenario(load("verify-llama-cp2-ring", wild)).result;
  CHECK(shared.exit_code == 1);
  CHECK(shared.checks.back().detail.find("nothing is proven") != std::string::npos);
  CHECK(run_scenario(load("verify-gpt-zero2", wild)).result.exit_code == 0);
}

}  // namespace shardsim
