#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/kernel/error.hpp"

#include "strategies/model/make_model.hpp"

#include "tests/strategies/block_shapes.hpp"
#include "tests/strategies/heads_of_layers.hpp"
#include "tests/strategies/mixer_models.hpp"

// One device that owns whole parameters and gradients, and runs a model's modules in order.
namespace shardsim::test {

/// Code of the error of making such a model; "none" if it can be made.
inline std::string code_of_model(const ModelOptions& options) {
  try {
    (void)make_model(options);
  } catch (const UsageError& error) {
    return error.code();
  }
  return "none";
}

class WholeParameters final : public Parameters {
 public:
  /// `gradient_dtype` may be wider than the weights'.
  WholeParameters(const Model& model, Runtime& runtime, std::uint64_t seed, DType dtype,
                  DType gradient_dtype) {
    for (const ParameterSpec& spec : model.parameters()) {
      weights_.push_back(runtime.allocate(MemoryCategory::params, spec.shape, dtype));
      gradients_.push_back(runtime.allocate(MemoryCategory::grads, spec.shape, gradient_dtype));
      if (weights_.back().has_data()) initialize(spec, 0, seed, 0, weights_.back());
    }
  }

  [[nodiscard]] Tensor weight(int index) override { return weights_[to_size(index)]; }
  [[nodiscard]] Tensor gradient(int index) override { return gradients_[to_size(index)]; }
  void gradient_ready(int index) override { ready_.push_back(index); }

  /// Indices in the order in which their gradients were reported.
  [[nodiscard]] const std::vector<int>& ready() const { return ready_; }
  [[nodiscard]] int size() const { return static_cast<int>(weights_.size()); }

 private:
  static std::size_t to_size(int index) { return static_cast<std::size_t>(index); }

  std::vector<Tensor> weights_;
  std::vector<Tensor> gradients_;
  std::vector<int> ready_;
};

/// Forward through all modules; returns the sum of losses [1]. `saved` has one entry per module.
inline Tensor run_forward(const Model& model, Runtime& runtime, Parameters& parameters,
                          const Batch& batch, std::vector<Saved>& saved) {
  saved.resize(static_cast<std::size_t>(model.num_modules()));
  Tensor x;
  for (int module = 0; module < model.num_modules(); ++module) {
    x = model.forward(module, {runtime, parameters}, x, batch,
                      saved[static_cast<std::size_t>(module)]);
  }
  return x;
}

inline void run_backward(const Model& model, Runtime& runtime, Parameters& parameters,
                         const Batch& batch, std::vector<Saved>& saved) {
  Tensor d;
  for (int module = model.num_modules() - 1; module >= 0; --module) {
    d = model.backward(module, {runtime, parameters}, d, batch,
                       saved[static_cast<std::size_t>(module)]);
  }
}

/// Small models of every family, by the name of what is special about them.
/// Attention as models of today have it, with unlike layers.
inline ModelOptions with_attention_of_today(ModelOptions options, QueryKeyNorm norm) {
  options.head_dim = 4;
  options.query_key_norm = norm;
  options.attention_output_gate = true;
  options.query_key_value_bias = true;
  options.attention_scale = 0.4;
  options.attention_logit_cap = 2.0;
  options.final_logit_cap = 1.5;
  options.layers = {{.mask = {AttentionReach::sliding, 2}, .rope_theta = 50.0, .has_sinks = true},
                    {.mask = {AttentionReach::chunked, 3}, .has_rotary = false}};
  return options;
}

inline ModelOptions small_model(std::string_view name, DType dtype = DType::fp64) {
  ModelOptions options{.family = "llama",
                       .num_layers = 2,
                       .hidden_size = 8,
                       .ffn_hidden_size = 12,
                       .num_attention_heads = 4,
                       .num_query_groups = 2,
                       .vocab_size = 11,
                       .seq_len = 5,
                       .max_position_embeddings = 7,
                       .tied_embeddings = false,
                       .dtype = dtype};
  if (name == "gpt2 dropping" || name == "llama dropping") {
    options = small_model(name == "gpt2 dropping" ? "gpt2" : "llama", dtype);
    options.hidden_dropout = 0.125;
    return options;
  }
  if (is_block_shape(name)) return with_block_shape(options, name);
  if (name == "llama of today") return with_attention_of_today(options, QueryKeyNorm::whole);
  if (name == "llama without norm weights") {
    return with_attention_of_today(options, QueryKeyNorm::weightless);
  }
  if (name == "llama with growing queries") {  // Its second layer has no rotary positions.
    options = with_attention_of_today(options, QueryKeyNorm::whole);
    options.query_temperature = {0.2, 2};
    return options;
  }
  if (name == "latent llama") return with_latents(options, 7);
  if (name == "llama with a latent of keys") return with_latents(options, 0);
  if (name == "delta hybrid" || name == "mamba hybrid") {
    return with_mixers(options, name == "mamba hybrid");
  }
  if (name == "parallel hybrid") {
    options = with_mixers(options, false);
    options.mamba.has_norm = false;
    options.layers = {{.mixer = Mixer::attention_mamba}, {.mixer = Mixer::mamba}};
    return options;
  }
  if (name == "scaled hybrid") {  // As Falcon-H1, with biases of MLPs.
    options = with_mixers(options, false);
    options.mamba.has_norm = false;
    options.layers = {{.mixer = Mixer::attention_mamba}, {.mixer = Mixer::mamba}};
    return with_factors(options);
  }
  if (name == "scaled parallel llama") {
    options.parallel_block = true;
    return with_factors(options);
  }
  if (name.find(" of ") != std::string_view::npos) return with_heads_of_layers(options, name);
  if (name == "mlp" || name == "integer mlp") {
    options.family = "mlp";
    options.seq_len = 1;
    options.integer_valued = name == "integer mlp";
  } else if (name == "gpt2" || name == "untied gpt2") {
    options.family = "gpt2";
    options.num_query_groups = 4;
    options.tied_embeddings = name == "gpt2";
  } else {
    options.tied_embeddings = name == "tied llama" || name == "tied predicting llama";
    if (name == "predicting llama") options.mtp_num_layers = 2;
    if (name == "tied predicting llama") options.mtp_num_layers = 1;
  }
  return options;
}

inline const std::vector<const char*> kSmallModels = {"mlp",
                                                      "integer mlp",
                                                      "gpt2",
                                                      "untied gpt2",
                                                      "llama",
                                                      "tied llama",
                                                      "predicting llama",
                                                      "tied predicting llama"};

/// All losses with their weights, as one sum over targets of equal number.
inline double joined_loss(const Model& model, const Tensor& losses) {
  double sum = 0.0;
  for (int loss = 0; loss < model.num_losses(); ++loss) {
    sum += model.loss_weight(loss) * losses.get(loss);
  }
  return sum;
}

}  // namespace shardsim::test
