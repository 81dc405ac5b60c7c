#include "scenarios/model_spec.hpp"

#include "strategies/model/make_model.hpp"

#include "scenarios/linear_spec.hpp"

// The number of a model's parameters, in closed form, and its layers.
namespace shardsim {

namespace {

std::int64_t gpt2_parameters(const ModelSpec& m) {
  const std::int64_t h = m.hidden_size;
  const std::int64_t f = m.ffn_hidden_size;
  const std::int64_t a = m.head_dim * m.num_attention_heads;
  const std::int64_t layer = 4 * h * a + 3 * a + 2 * h * f + 6 * h + f;
  const std::int64_t tables = (m.vocab_size + m.max_position_embeddings) * h;
  const std::int64_t head = m.tied_embeddings ? 0 : m.vocab_size * h;
  return tables + m.num_layers * layer + 2 * h + head;
}

// In one layer, with the router and the shared expert.
std::int64_t expert_parameters(const ModelSpec& m) {
  const std::int64_t h = m.hidden_size;
  const std::int64_t f = m.moe_ffn_hidden_size;
  const std::int64_t biases = (m.moe_router_logit_bias ? m.num_experts : 0) +
                              (m.moe_expert_bias ? m.num_experts * (2 * f + h) : 0);
  const std::int64_t gate = m.moe_shared_gate ? h : 0;
  return m.num_experts * h + 3 * (m.num_experts * f + m.moe_shared_ffn_hidden_size) * h + biases +
         gate;
}

std::int64_t llama_parameters(const ModelSpec& m) {
  const std::int64_t h = m.hidden_size;
  const std::int64_t f = m.ffn_hidden_size;
  const std::int64_t a = m.head_dim * m.num_attention_heads;
  const std::int64_t k = m.head_dim * m.num_query_groups;
  const std::int64_t norms = m.query_key_norm == QueryKeyNorm::per_head ? 2 * m.head_dim
                             : m.query_key_norm == QueryKeyNorm::whole  ? a + k
                                                                        : 0;
  const std::int64_t gate = m.attention_output_gate ? h * a : 0;
  std::int64_t sinks = 0;
  for (std::int64_t i = 0; i < m.num_layers && !m.layers.empty(); ++i) {
    sinks += m.layer(i).sinks ? m.num_attention_heads : 0;
  }
  const std::int64_t biases =
      (m.query_key_value_bias ? a + 2 * k : 0) + (m.attention_out_bias ? h : 0);
  const std::int64_t attention = 2 * h * a + 2 * h * k + norms + biases + gate;
  const std::int64_t head = m.tied_embeddings ? 0 : m.vocab_size * h;
  const std::int64_t with_experts = m.layers_with_experts();
  const std::int64_t dense = m.layers_with_dense();
  const std::int64_t branches =
      m.num_layers - m.layers_mixed_by(Mixer::none) + with_experts + dense;
  const std::int64_t experts = expert_parameters(m);
  const std::int64_t mixers = m.layers_mixed_by(Mixer::attention) * attention +
                              m.layers_mixed_by(Mixer::delta_net) * delta_net_parameters(m) +
                              m.layers_mixed_by(Mixer::mamba) * mamba_parameters(m);
  return m.vocab_size * h + branches * h + mixers + dense * 3 * h * f + with_experts * experts +
         sinks + h + head;
}

std::int64_t mlp_parameters(const ModelSpec& m) {
  const std::int64_t f = m.ffn_hidden_size;
  return m.hidden_size * f + f + (m.num_layers - 1) * (f * f + f) + f * m.vocab_size + m.vocab_size;
}

}  // namespace

const LayerSpec& ModelSpec::layer(std::int64_t index) const {
  std::int64_t listed = 0;
  for (const LayerSpec& each : layers) listed += each.repeats;
  index %= listed;
  const LayerSpec* here = layers.data();
  while (index >= here->repeats) index -= here++->repeats;
  return *here;
}

bool ModelSpec::has_experts(std::int64_t index) const {
  if (num_experts == 0) return false;
  const FeedForward kind = layers.empty() ? FeedForward::automatic : layer(index).feed_forward;
  return kind == FeedForward::automatic ? index >= first_dense_layers
                                        : kind == FeedForward::experts;
}

std::int64_t ModelSpec::layers_with_experts() const {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < num_layers; ++i) count += has_experts(i) ? 1 : 0;
  return count;
}

std::int64_t ModelSpec::layers_with_dense() const {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < num_layers; ++i) {
    const bool has_none = !layers.empty() && layer(i).feed_forward == FeedForward::none;
    count += has_none || has_experts(i) ? 0 : 1;
  }
  return count;
}

std::int64_t ModelSpec::layers_mixed_by(Mixer mixer) const {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < num_layers; ++i) {
    count += (layers.empty() ? Mixer::attention : layer(i).mixer) == mixer ? 1 : 0;
  }
  return count;
}

std::int64_t num_parameters(const ModelSpec& model) {
  switch (model.family) {
    case ModelFamily::mlp:
      return mlp_parameters(model);
    case ModelFamily::gpt2:
      return gpt2_parameters(model);
    case ModelFamily::llama:
      return llama_parameters(model);
  }
  return 0;
}

}  // namespace shardsim
