#pragma once

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "strategies/model/expert_layer.hpp"
#include "strategies/model/router_bias.hpp"

#include "tests/strategies/layer_fixture.hpp"
#include "tests/strategies/model_fixture.hpp"

// A layer of experts on one device.
namespace shardsim::test {

inline ModelOptions model_with_experts(const MoeOptions& moe) {
  ModelOptions options = small_model("llama");
  options.moe = moe;
  return options;
}

inline MoeOptions some_experts(RoutingKind routing, std::int64_t k) {
  MoeOptions moe;
  moe.num_experts = 5;
  moe.experts_per_token = k;
  moe.ffn_hidden_size = 6;
  moe.routing = routing;
  moe.skew = 16.0;  // The first k experts get all.
  return moe;
}

// The routed experts of block 0 of a small model, alone.
inline ModelOptions with_outputs(ModelOptions options, bool are_kept,
                                 const ActivationForm& activation) {
  options.memory.keeps_expert_outputs = are_kept;
  options.activation = activation;
  return options;
}

class LayerFixture {
 public:
  explicit LayerFixture(const MoeOptions& moe, bool keeps_outputs = true,
                        const ActivationForm& activation = {})
      : options(with_outputs(model_with_experts(moe), keeps_outputs, activation)),
        model(make_model(options)),
        layer(options),
        parameters(*model, runtime, 7, DType::fp64, DType::fp64),
        x(random_tensor("x", {2 * options.seq_len, options.hidden_size})) {
    places = {.router = 6, .experts = 6 + layer.outer_size()};
    biases.begin(runtime, model->router_biases());
    for (int i = 0; i < parameters.size(); ++i) {
      const Tensor weight = parameters.weight(i);
      const bool is_zero = model->parameters()[to_size(i)].init.kind == Init::Kind::zeros;
      for (std::int64_t j = 0; j < weight.numel(); ++j) {
        weight.set(j, is_zero ? 0.2 * std::cos(static_cast<double>(j)) : 25.0 * weight.get(j));
      }
    }
    batch.first_sample = 0;
  }

  [[nodiscard]] Pass pass() {
    const ModelParallel alone{.router_biases = &biases};
    return {ModelContext{runtime, parameters, alone}, kBlock, options.seq_len, 0, {}, {}, &batch};
  }
  Tensor forward() {
    kept.assign(ExpertLayer::num_kept, Tensor());
    layer.route(pass(), places, x, kept);
    ExpertLayer::Dispatched sent = layer.dispatch(pass(), places, x, kept);
    return layer.finish(pass(), places, std::move(sent), x.shape(), kept);
  }
  Tensor backward(const Tensor& dy) { return layer.backward(pass(), places, dy, x, kept); }

  static constexpr int kBlock = 1;  // After the embedding's one parameter.
  ModelOptions options;
  LocalRuntime runtime;
  std::unique_ptr<Model> model;
  ExpertLayer layer;
  WholeParameters parameters;
  RouterBiases biases;
  ExpertLayer::Places places;
  Tensor x;
  Batch batch;
  std::vector<Tensor> kept;
};

inline std::vector<double> logits_of_token(LayerFixture& f, std::int64_t token) {
  const Tensor router = f.parameters.weight(LayerFixture::kBlock + f.places.router);
  std::vector<double> logits;
  for (std::int64_t expert = 0; expert < f.options.moe.num_experts; ++expert) {
    double sum = f.options.moe.router.has_logit_bias
                     ? f.parameters.weight(LayerFixture::kBlock + f.places.router + 1).get(expert)
                     : 0.0;
    for (std::int64_t j = 0; j < f.options.hidden_size; ++j) {
      sum += router.get(expert * f.options.hidden_size + j) *
             f.x.get(token * f.options.hidden_size + j);
    }
    logits.push_back(sum);
  }
  return logits;
}

}  // namespace shardsim::test
