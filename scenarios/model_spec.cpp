#include "scenarios/model_spec.hpp"

#include "strategies/model/make_model.hpp"

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

// Gate, up and down, or up and down alone.
std::int64_t matrices_of(const ModelSpec& m) {
  return ActivationForm{.kind = m.activation}.is_gated() ? 3 : 2;
}

// The residual stream's, with the one behind all layers.
std::int64_t norm_parameters(const ModelSpec& m) {
  const std::int64_t branches = m.parallel_block ? 1 : 2;
  const std::int64_t each = m.norm_placement == NormPlacement::sandwich ? 2 : 1;
  const std::int64_t size = m.norm_kind == NormKind::layer ? 2 * m.hidden_size : m.hidden_size;
  return (m.num_layers * branches * each + 1) * size;
}

// In one layer, with the router and the shared expert.
std::int64_t expert_parameters(const ModelSpec& m) {
  const std::int64_t h = m.hidden_size;
  const std::int64_t f = m.moe_ffn_hidden_size;
  const std::int64_t of_columns = (matrices_of(m) - 1) * f;
  const std::int64_t biases = (m.moe_router_logit_bias ? m.num_experts : 0) +
                              (m.moe_expert_bias ? m.num_experts * (of_columns + h) : 0);
  const std::int64_t gate = m.moe_shared_gate ? h : 0;
  const std::int64_t width = m.num_experts * f + m.moe_shared_ffn_hidden_size;
  return m.num_experts * h + matrices_of(m) * width * h + biases + gate;
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
  const std::int64_t layer = 2 * h * a + 2 * h * k + norms + biases + gate;
  const std::int64_t head = m.tied_embeddings ? 0 : m.vocab_size * h;
  const std::int64_t with_experts = m.layers_with_experts();
  const std::int64_t experts = expert_parameters(m);
  const std::int64_t dense =
      matrices_of(m) * h * f + (m.mlp_bias ? (matrices_of(m) - 1) * f + h : 0);
  return m.vocab_size * h + m.num_layers * layer + (m.num_layers - with_experts) * dense +
         with_experts * experts + sinks + norm_parameters(m) + head;
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
