#include "strategies/pipeline/stage_model.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace shardsim {

namespace {

// Parameters under the numbers of the whole model, as the model's code asks for them.
class Renumbered final : public Parameters {
 public:
  Renumbered(Parameters& here, const std::vector<int>& local_index)
      : here_(here), local_index_(local_index) {}
  Tensor weight(int index) override { return here_.weight(local(index)); }
  Tensor gradient(int index) override { return here_.gradient(local(index)); }
  void gradient_ready(int index) override { here_.gradient_ready(local(index)); }
  [[nodiscard]] int number_here(int index) const override {
    return here_.number_here(local(index));
  }

 private:
  [[nodiscard]] int local(int index) const { return local_index_[index_of(index)]; }
  Parameters& here_;
  const std::vector<int>& local_index_;
};

}  // namespace

StageModel::StageModel(const Model& whole, const std::vector<ModuleRange>& chunks)
    : ModelWrapper(whole), local_index_(whole.parameters().size(), -1) {
  for (const ModuleRange& chunk : chunks) {
    chunks_.push_back({static_cast<int>(modules_.size()), chunk.count});
    for (int i = 0; i < chunk.count; ++i) modules_.push_back(chunk.first + i);
  }
  const std::vector<Readers> readers = find_readers();
  for (const ParameterUnit& unit : whole.units()) add_unit(unit, readers);
  list_users();
}

std::vector<StageModel::Readers> StageModel::find_readers() const {
  std::vector<int> chunk_of(index_of(inner_.num_modules()), -1);  // By module of the whole model.
  for (int chunk = 0; chunk < num_chunks(); ++chunk) {
    const ModuleRange& range = chunks_[index_of(chunk)];
    for (int i = 0; i < range.count; ++i)
      chunk_of[index_of(modules_[index_of(range.first + i)])] = chunk;
  }
  std::vector<Readers> readers(local_index_.size());
  for (int module = 0; module < inner_.num_modules(); ++module) {
    const int chunk = chunk_of[index_of(module)];
    for (const int parameter : inner_.parameters_of(module)) {
      Readers& of = readers[index_of(parameter)];
      if (chunk < 0) {
        of.elsewhere = true;
      } else if (of.first_chunk < 0 || chunk < of.first_chunk) {
        of.first_chunk = chunk;
      }
    }
  }
  return readers;
}

void StageModel::add_unit(const ParameterUnit& unit, const std::vector<Readers>& readers) {
  std::vector<int> others;
  for (int parameter = unit.first; parameter < unit.first + unit.count; ++parameter) {
    const Readers& of = readers[index_of(parameter)];
    if (of.first_chunk < 0) continue;
    if (of.elsewhere) {
      add_parameters(inner_.parameters()[index_of(parameter)].name, {parameter}, readers);
    } else {
      others.push_back(parameter);
    }
  }
  add_parameters(unit.name, others, readers);
}

void StageModel::add_parameters(const std::string& name, const std::vector<int>& members,
                                const std::vector<Readers>& readers) {
  if (members.empty()) return;
  units_.push_back({name, static_cast<int>(specs_.size()), static_cast<int>(members.size())});
  for (const int parameter : members) {
    local_index_[index_of(parameter)] = static_cast<int>(specs_.size());
    whole_index_.push_back(parameter);
    specs_.push_back(inner_.parameters()[index_of(parameter)]);
    specs_.back().tied = readers[index_of(parameter)].elsewhere;
    // Backward goes from the last chunk to the first, so a parameter's gradient is complete with
    // the first of the chunks that read it.
    specs_.back().chunk = readers[index_of(parameter)].first_chunk;
  }
}

void StageModel::list_users() {
  std::vector<int> unit_of;  // By parameter of this model.
  for (int unit = 0; unit < static_cast<int>(units_.size()); ++unit) {
    unit_of.insert(unit_of.end(), index_of(units_[index_of(unit)].count), unit);
  }
  for (const int whole_module : modules_) {
    std::vector<int>& parameters = module_parameters_.emplace_back();
    std::vector<int>& units = module_units_.emplace_back();
    for (const int parameter : inner_.parameters_of(whole_module)) {
      const int local = local_index_[index_of(parameter)];
      parameters.push_back(local);
      const int unit = unit_of[index_of(local)];
      if (std::find(units.begin(), units.end(), unit) == units.end()) units.push_back(unit);
    }
  }
}

std::vector<RouterBiasSpec> StageModel::router_biases() const {
  std::vector<RouterBiasSpec> here = inner_.router_biases();
  std::erase_if(here, [&](const RouterBiasSpec& spec) {
    return std::ranges::find(modules_, spec.module) == modules_.end();
  });
  return here;
}

Tensor StageModel::forward(int module, const ModelContext& context, const Tensor& input,
                           const Batch& batch, Saved& saved) const {
  Renumbered parameters(context.parameters, local_index_);
  return inner_.forward(modules_[index_of(module)], context.with(parameters), input, batch, saved);
}

Tensor StageModel::backward(int module, const ModelContext& context, const Tensor& output_gradient,
                            const Batch& batch, Saved& saved) const {
  Renumbered parameters(context.parameters, local_index_);
  return inner_.backward(modules_[index_of(module)], context.with(parameters), output_gradient,
                         batch, saved);
}

void StageModel::run_weight_gradients(WeightGradientQueue& queue,
                                      const ModelContext& context) const {
  Renumbered parameters(context.parameters, local_index_);
  inner_.run_weight_gradients(queue, context.with(parameters));
}

}  // namespace shardsim
