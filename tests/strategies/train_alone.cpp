#include <cmath>
#include <cstring>

#include "tests/strategies/lone_muon.hpp"
#include "tests/strategies/training_case.hpp"

namespace shardsim::test {

namespace {

ModelOptions of_one_device(ModelOptions model) {
  model.tensor_parallel = 1;
  model.sequence_parallel = false;
  return model;
}

// One device's whole model with its optimizer, element by element as the definition says.
class LoneTrainer {
 public:
  explicit LoneTrainer(const TrainingCase& c)
      : case_(c),
        model_(make_model(of_one_device(c.model))),
        cut_(make_cut_model(c)),
        optimizer_(make_optimizer(c.optimizer, c.optimizer_options)),
        parameters_(*model_, runtime_, c.training.seed, DType::fp64, DType::fp64) {
    for (const ParameterSpec& spec : model_->parameters()) {
      states_.emplace_back();
      for (std::size_t i = 0; i < names_of(spec).size(); ++i) {
        states_.back().push_back(
            runtime_.allocate(MemoryCategory::optimizer, {spec.shape.numel()}, DType::fp64));
      }
    }
  }

  StepRecord step(std::int64_t step) {
    const TrainingPlan& plan = case_.training;
    const std::int64_t samples =
        plan.micro_batch_size * plan.num_microbatches * case_.mesh.data_size();
    Batch batch =
        model_->make_batch(runtime_, plan.seed, step * samples, samples, plan.ignore_fraction);
    const std::int64_t targets =
        model_->count_targets(plan.seed, step * samples, samples, plan.ignore_fraction);
    batch.loss_scale = targets > 0 ? 1.0 / static_cast<double>(targets) : 0.0;
    for (int i = 0; i < parameters_.size(); ++i) {
      const Tensor gradient = parameters_.gradient(i);
      std::memset(gradient.data(), 0, static_cast<std::size_t>(gradient.num_bytes()));
    }
    std::vector<Saved> saved;
    const double sum = run_forward(*model_, runtime_, parameters_, batch, saved).get(0);
    run_backward(*model_, runtime_, parameters_, batch, saved);

    StepRecord record;
    record.loss = targets > 0 ? sum / static_cast<double>(targets) : sum;
    for (int i = 0; i < parameters_.size(); ++i) {
      keep(record, "gradient", parameters_.gradient(i));
    }
    update(step);
    for (int i = 0; i < parameters_.size(); ++i) {
      keep(record, "parameter", parameters_.weight(i));
      const std::vector<std::string_view> names = names_of(spec_of(*model_, i));
      for (std::size_t s = 0; s < names.size(); ++s) {
        // Empty of parameters that have no such state.
        record.values[std::string(names[s])].resize(static_cast<std::size_t>(i));
        keep(record, std::string(names[s]), states_[static_cast<std::size_t>(i)][s]);
      }
    }
    return record;
  }

 private:
  // How tensor-parallel ranks cut it; the whole model without them.
  static std::unique_ptr<Model> make_cut_model(const TrainingCase& c) {
    ModelOptions options = c.model;
    options.tensor_parallel = c.mesh.tp;
    return make_model(options);
  }
  [[nodiscard]] bool takes_muon(const ParameterSpec& spec) const {
    return case_.sync.muon && spec.has_matrices();
  }
  [[nodiscard]] std::vector<std::string_view> names_of(const ParameterSpec& spec) const {
    if (takes_muon(spec)) return {kMuonState};
    return {optimizer_->state_names().begin(), optimizer_->state_names().end()};
  }
  void step_matrices(int parameter, double scale) {
    const bool in_blocks = case_.sync.muon->tensor_parallel == MuonTensorParallel::blockwise;
    const ParameterSpec& cut = spec_of(*cut_, parameter);
    lone_muon_step(*case_.sync.muon, case_.optimizer_options, spec_of(*model_, parameter),
                   in_blocks && cut.is_split_over(SplitRanks::tensor) ? cut.split : TensorSplit{},
                   parameters_.weight(parameter).flat(), parameters_.gradient(parameter).flat(),
                   states_[static_cast<std::size_t>(parameter)].front(), scale);
  }

  void update(std::int64_t step) {
    double scale = 1.0;
    if (case_.training.max_grad_norm > 0.0) {
      double squares = 0.0;
      double most = 0.0;
      for (int i = 0; i < parameters_.size(); ++i) {
        const Tensor gradient = parameters_.gradient(i);
        for (std::int64_t k = 0; k < gradient.numel(); ++k) {
          squares += gradient.get(k) * gradient.get(k);
          most = std::fmax(most, std::fabs(gradient.get(k)));
        }
      }
      const bool is_two = case_.training.grad_norm_type == NormType::two;
      const double norm = is_two ? std::sqrt(squares) : most;
      scale = std::fmin(1.0, case_.training.max_grad_norm / (norm + 1e-6));
    }
    for (int i = 0; i < parameters_.size(); ++i) {
      if (takes_muon(spec_of(*model_, i))) {
        step_matrices(i, scale);
        continue;
      }
      optimizer_->step(runtime_, parameters_.weight(i), parameters_.gradient(i),
                       states_[static_cast<std::size_t>(i)], scale, step + 1);
    }
  }

  static void keep(StepRecord& record, const std::string& kind, const Tensor& tensor) {
    std::vector<double>& values = record.values[kind].emplace_back();
    for (std::int64_t i = 0; i < tensor.numel(); ++i) values.push_back(tensor.get(i));
  }

  const TrainingCase& case_;
  LocalRuntime runtime_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Model> cut_;
  std::unique_ptr<Optimizer> optimizer_;
  WholeParameters parameters_;
  std::vector<std::vector<Tensor>> states_;
};

}  // namespace

std::vector<StepRecord> train_alone(const TrainingCase& c) {
  LoneTrainer trainer(c);
  std::vector<StepRecord> steps;
  for (std::int64_t step = 0; step < c.training.steps; ++step) steps.push_back(trainer.step(step));
  return steps;
}

}  // namespace shardsim::test
