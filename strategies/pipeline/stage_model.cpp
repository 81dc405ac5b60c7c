#include "strategies/pipeline/stage_model.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

bool contains(std::span<const int> list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// Parameters under the numbers of the whole model, as the model's code asks for them.
class Renumbered final : public Parameters {
 public:
  Renumbered(Parameters& here, const std::vector<int>& local_index)
      : here_(here), local_index_(local_index) {}
  Tensor weight(int index) override { return here_.weight(local(index)); }
  Tensor gradient(int index) override { return here_.gradient(local(index)); }
  void gradient_ready(int index) override { here_.gradient_ready(local(index)); }

 private:
  [[nodiscard]] int local(int index) const { return local_index_[static_cast<std::size_t>(index)]; }
  Parameters& here_;
  const std::vector<int>& local_index_;
};

}  // namespace

std::vector<ModuleRange> split_modules(int num_modules, int num_stages) {
  if (num_stages > num_modules) {
    throw UsageError("E0711",
                     std::to_string(num_stages) + " pipeline stages, but the model has only " +
                         std::to_string(num_modules) + " modules (embedding, blocks and head)",
                     "use fewer stages or chunks, or a deeper model");
  }
  std::vector<ModuleRange> stages;
  int first = 0;
  for (int stage = 0; stage < num_stages; ++stage) {
    const int count = num_modules / num_stages + (stage < num_modules % num_stages ? 1 : 0);
    stages.push_back({first, count});
    first += count;
  }
  return stages;
}

StageModel::StageModel(const Model& whole, const std::vector<ModuleRange>& chunks)
    : whole_(whole), local_index_(whole.parameters().size(), -1) {
  for (const ModuleRange& chunk : chunks) {
    chunks_.push_back({static_cast<int>(modules_.size()), chunk.count});
    for (int i = 0; i < chunk.count; ++i) modules_.push_back(chunk.first + i);
  }
  for (const ParameterUnit& unit : whole.units()) add_unit(unit);
  list_users();
}

void StageModel::add_unit(const ParameterUnit& unit) {
  std::vector<int> tied;
  std::vector<int> others;
  for (int parameter = unit.first; parameter < unit.first + unit.count; ++parameter) {
    bool read_here = false;
    bool read_elsewhere = false;
    for (int module = 0; module < whole_.num_modules(); ++module) {
      if (!contains(whole_.parameters_of(module), parameter)) continue;
      (contains(modules_, module) ? read_here : read_elsewhere) = true;
    }
    if (read_here) (read_elsewhere ? tied : others).push_back(parameter);
  }
  for (const int parameter : tied) {
    const std::string& name = whole_.parameters()[static_cast<std::size_t>(parameter)].name;
    add_parameters(name, {parameter}, true);
  }
  add_parameters(unit.name, others, false);
}

void StageModel::add_parameters(const std::string& name, const std::vector<int>& members,
                                bool tied) {
  if (members.empty()) return;
  units_.push_back({name, static_cast<int>(specs_.size()), static_cast<int>(members.size())});
  for (const int parameter : members) {
    local_index_[static_cast<std::size_t>(parameter)] = static_cast<int>(specs_.size());
    whole_index_.push_back(parameter);
    specs_.push_back(whole_.parameters()[static_cast<std::size_t>(parameter)]);
    specs_.back().tied = tied;
    specs_.back().chunk = chunk_that_ends_last(parameter);
  }
}

// Backward goes from the last chunk to the first, so a parameter's gradient is complete with the
// first of the chunks that read it.
int StageModel::chunk_that_ends_last(int whole_parameter) const {
  for (int chunk = 0; chunk < num_chunks(); ++chunk) {
    const ModuleRange& range = chunks_[static_cast<std::size_t>(chunk)];
    for (int module = range.first; module < range.first + range.count; ++module) {
      const int whole_module = modules_[static_cast<std::size_t>(module)];
      if (contains(whole_.parameters_of(whole_module), whole_parameter)) return chunk;
    }
  }
  return 0;
}

void StageModel::list_users() {
  for (const int whole_module : modules_) {
    module_parameters_.emplace_back();
    module_units_.emplace_back();
    for (const int parameter : whole_.parameters_of(whole_module)) {
      const int local = local_index_[static_cast<std::size_t>(parameter)];
      module_parameters_.back().push_back(local);
      for (int unit = 0; unit < static_cast<int>(units_.size()); ++unit) {
        const ParameterUnit& range = units_[static_cast<std::size_t>(unit)];
        const bool inside = range.first <= local && local < range.first + range.count;
        if (inside && !contains(module_units_.back(), unit)) module_units_.back().push_back(unit);
      }
    }
  }
}

Tensor StageModel::forward(int module, const ModelContext& context, const Tensor& input,
                           const Batch& batch, Saved& saved) const {
  Renumbered parameters(context.parameters, local_index_);
  return whole_.forward(modules_[static_cast<std::size_t>(module)], context.with(parameters), input,
                        batch, saved);
}

Tensor StageModel::backward(int module, const ModelContext& context, const Tensor& output_gradient,
                            const Batch& batch, Saved& saved) const {
  Renumbered parameters(context.parameters, local_index_);
  return whole_.backward(modules_[static_cast<std::size_t>(module)], context.with(parameters),
                         output_gradient, batch, saved);
}

void StageModel::run_weight_gradients(WeightGradientQueue& queue,
                                      const ModelContext& context) const {
  Renumbered parameters(context.parameters, local_index_);
  whole_.run_weight_gradients(queue, context.with(parameters));
}

}  // namespace shardsim
