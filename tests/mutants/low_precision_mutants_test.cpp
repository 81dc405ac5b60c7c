#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/model/model_wrapper.hpp"
#include "strategies/model/quantized_weights.hpp"

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

#include "tests/mutants/expert_faults.hpp"
#include "tests/mutants/finding.hpp"
#include "tests/mutants/mutant.hpp"
#include "tests/mutants/score.hpp"
#include "tests/strategies/recording_runtime.hpp"
#include "tests/strategies/training_case.hpp"

// K16: bugs of products in low precision. A wrong scale or copy trains something else.
namespace shardsim::test {
namespace {

// Those of a tensor, and of all tensors with delayed scales.
bool is_largest_element(const CallOptions& options) {
  const std::string label = options.label;
  return label == "largest element" || label == "largest elements";
}

Faults without_largest() {
  Faults faults;
  faults.all_reduce = [](const Caller& caller, const Tensor& buffer, ReduceOp op,
                         const CallOptions& options, CallSite site) -> Work {
    if (is_largest_element(options)) return {};
    return caller.to.all_reduce(buffer, op, options, site);
  };
  return faults;
}

Faults with_sum_of_largest() {
  Faults faults;
  faults.all_reduce = [](const Caller& caller, const Tensor& buffer, ReduceOp op,
                         const CallOptions& options, CallSite site) -> Work {
    const bool is_largest = is_largest_element(options);
    return caller.to.all_reduce(buffer, is_largest ? ReduceOp::sum : op, options, site);
  };
  return faults;
}

// Each rank gets what it should have got a step before.
Faults with_largest_of_step_before() {
  Faults faults;
  auto before =
      std::make_shared<std::map<std::tuple<int, std::string, std::int64_t>, std::vector<double>>>();
  faults.all_reduce = [before](const Caller& caller, const Tensor& buffer, ReduceOp op,
                               const CallOptions& options, CallSite site) -> Work {
    Work work = caller.to.all_reduce(buffer, op, options, site);
    if (!is_largest_element(options)) return work;
    work.wait();
    std::vector<double> now = values_of(buffer);
    std::vector<double>& last = (*before)[{caller.world_rank, caller.to.name(), buffer.numel()}];
    if (!last.empty()) store(buffer, last);
    last = std::move(now);
    return {};
  };
  return faults;
}

// Quantizes its weights in the first step alone, or keeps to what is made for it.
class OwnCopies final : public ModelWrapper {
 public:
  OwnCopies(const Model& model, bool are_stale) : ModelWrapper(model), are_stale_(are_stale) {
    copies_.begin_step();
  }
  Tensor forward(int module, const ModelContext& context, const Tensor& input, const Batch& batch,
                 Saved& saved) const override {
    if (are_stale_) {
      for (const int index : parameters_of(module)) {
        const ParameterSpec& spec = parameters()[static_cast<std::size_t>(index)];
        if (spec.low == nullptr) continue;
        copies_.make(runtime_, *spec.low, index, context.parameters.weight(index));
      }
    }
    return inner_.forward(module, with_own(context), input, batch, saved);
  }
  Tensor backward(int module, const ModelContext& context, const Tensor& output_gradient,
                  const Batch& batch, Saved& saved) const override {
    return inner_.backward(module, with_own(context), output_gradient, batch, saved);
  }

 private:
  [[nodiscard]] ModelContext with_own(const ModelContext& context) const {
    ModelContext own = context;
    if (are_stale_) own.quantized_weights = &copies_;
    return own;
  }

  bool are_stale_;
  mutable RecordingRuntime runtime_{true};  // Not the rank's: its memory is counted.
  mutable QuantizedWeights copies_;
};

TrainingCase in_eight_bits() {
  TrainingCase c;
  c.name = "llama in eight bits";
  c.model = small_model("llama");
  c.model.low = {.recipe = ScalingRecipe::tensorwise, .needs_transposes = true};
  c.training.num_microbatches = 2;
  c.training.steps = 2;
  return c;
}

double worst_of(TrainingCase c, const TrainingResult& right) {
  const TrainingResult result = run(c);
  double worst = 0.0;
  for (std::size_t step = 0; step < static_cast<std::size_t>(c.training.steps); ++step) {
    worst = std::max(worst, worst_error(merge(c, result, step), merge(c, right, step)).value);
  }
  return worst;
}

}  // namespace

TEST_CASE("K16: a largest element that ranks do not agree on is found") {
  struct Case {
    const char* scenario;
    const char* bug;
    Faults faults;
  };
  for (const char* scenario :
       {"llama-fp8-tp2-dp2-sp", "llama-tensorwise-tp2-dp2-sp", "llama-tensorwise-fsdp2-cp2",
        "llama-tensorwise-latent-tp2-sp", "gpt-tensorwise-tp2-pp2-dp2-zero1",
        "llama-tensorwise-ep2-etp2-tp2-sp"}) {
    for (Case& each : std::vector<Case>{{scenario, "left out", without_largest()},
                                        {scenario, "added up", with_sum_of_largest()}}) {
      INFO(each.scenario << ": the largest element is " << each.bug);
      const Scenario loaded = load_scenario(std::string("scenarios/verify-") + scenario + ".json");
      const Result result =
          run_scenario(loaded, {.wrap_world = plant(std::move(each.faults))}).result;
      count_mutant(Detector::oracle, finder_in(result));
    }
  }
}

TEST_CASE("K16: scales of the wrong step, and histories that ranks do not agree on, are found") {
  for (const char* scenario :
       {"llama-delayed-tp2-dp2-sp", "llama-delayed-fsdp2-cp2", "llama-delayed-ep2-etp2-tp2-sp"}) {
    const std::string file = std::string("scenarios/verify-") + scenario + ".json";
    std::vector<std::pair<const char*, Faults>> bugs;
    bugs.emplace_back("left out", without_largest());
    bugs.emplace_back("added up", with_sum_of_largest());
    bugs.emplace_back("of the step before", with_largest_of_step_before());
    for (auto& [bug, faults] : bugs) {
      INFO(scenario << ": the largest elements are " << bug);
      const Result result =
          run_scenario(load_scenario(file), {.wrap_world = plant(std::move(faults))}).result;
      count_mutant(Detector::oracle, finder_in(result));
    }
  }
}

TEST_CASE(
    "K16: tokens that are sent twice, lost or changed, and rows that only fill up, are found") {
  for (const char* scenario : {"llama-tensorwise-ep2", "llama-delayed-ep2-etp2-tp2-sp"}) {
    for (const char* label : {"expert tokens", "expert output gradients"}) {
      INFO(scenario << ": " << label);
      (void)found(scenario, lost_token(label));
      (void)found(scenario, shifted_rows(label));
    }
  }
  for (const char* scenario : {"llama-mxfp8-ep4-per-node", "llama-nvfp4-ep4-per-node"}) {
    INFO(scenario);
    (void)found(scenario, doubled_token("expert outputs"));
    (void)found(scenario, shifted_rows("expert choice"));
  }
  // Their gradients are zeros, but a block's scale is that of all its rows.
  (void)found("llama-mxfp8-ep4-capacity", counted_padding("expert tokens"));
}

TEST_CASE("K16: copies of weights that a step did not make anew are found") {
  TrainingCase c = in_eight_bits();
  const TrainingResult right = run(c);
  for (const bool are_stale : {false, true}) {
    c.model_of_rank = [&](const ModelPart& part, int) {
      return std::make_unique<OwnCopies>(*part.model, are_stale);
    };
    const double worst = worst_of(c, right);
    INFO("stale: " << are_stale << ", worst error " << worst);
    if (are_stale) {
      count_mutant(Detector::oracle, worst > kOracleBound ? Detector::oracle : Detector::nobody);
    } else {
      CHECK(worst == 0.0);
    }
  }
}

}  // namespace shardsim::test
