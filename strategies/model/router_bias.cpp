#include "strategies/model/router_bias.hpp"

#include <algorithm>
#include <utility>

#include "strategies/model/layer.hpp"

namespace shardsim {

void RouterBiases::begin(Runtime& runtime, std::vector<RouterBiasSpec> specs) {
  if (!specs_.empty() || specs.empty()) return;
  specs_ = std::move(specs);
  for (const RouterBiasSpec& spec : specs_) {
    biases_.push_back(
        runtime.allocate(MemoryCategory::params, Shape{spec.num_experts}, spec.dtype));
  }
  const auto layers = static_cast<std::int64_t>(specs_.size());
  loads_ = runtime.allocate(MemoryCategory::params, Shape{layers, specs_.front().num_experts},
                            DType::int64);
}

Tensor RouterBiases::bias_of(int block) const {
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    if (specs_[i].block == block) return biases_[i];
  }
  return {};
}

void RouterBiases::add_loads(Runtime& runtime, int block, const Tensor& chosen) {
  const auto layer = std::ranges::find(specs_, block, &RouterBiasSpec::block);
  if (layer == specs_.end()) return;
  const std::int64_t experts = layer->num_experts;
  const Tensor loads = loads_.view((layer - specs_.begin()) * experts, {experts});
  const std::int64_t bytes = chosen.num_bytes() + 2 * loads.num_bytes();
  runtime.compute(memory_op("add_router_loads", chosen.dtype(), bytes), [&] {
    for (std::int64_t i = 0; i < chosen.numel(); ++i) {
      const auto expert = static_cast<std::int64_t>(chosen.get(i));
      loads.set(expert, loads.get(expert) + 1.0);
    }
  });
}

void RouterBiases::update(Runtime& runtime) {
  std::int64_t bytes = 2 * loads_.num_bytes();
  for (const Tensor& bias : biases_) bytes += 2 * bias.num_bytes();
  runtime.compute(memory_op("update_router_biases", loads_.dtype(), bytes), [&] {
    for (std::size_t layer = 0; layer < specs_.size(); ++layer) {
      const std::int64_t experts = specs_[layer].num_experts;
      const std::int64_t first = static_cast<std::int64_t>(layer) * experts;
      double sum = 0.0;
      for (std::int64_t i = 0; i < experts; ++i) sum += loads_.get(first + i);
      for (std::int64_t i = 0; i < experts; ++i) {
        // Both sides are whole numbers: equal loads are equal exactly.
        const double missing = sum - static_cast<double>(experts) * loads_.get(first + i);
        const double sign = missing > 0.0 ? 1.0 : (missing < 0.0 ? -1.0 : 0.0);
        const Tensor& bias = biases_[layer];
        bias.set(i, bias.get(i) + specs_[layer].update_rate * sign);
        loads_.set(first + i, 0.0);
      }
    }
  });
}

void RouterBiases::clear_loads(Runtime& runtime) {
  if (empty()) return;
  runtime.off_the_clock([&] {
    for (std::int64_t i = 0; i < loads_.numel(); ++i) loads_.set(i, 0.0);
  });
}

}  // namespace shardsim
