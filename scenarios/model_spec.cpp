#include "scenarios/model_spec.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

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

// Gate, up and down, or up and down alone.
std::int64_t matrices_of(const ModelSpec& m) {
  return ActivationForm{.kind = m.activation}.is_gated() ? 3 : 2;
}

// Norms of the residual stream in a layer, and the parameters of one.
std::int64_t norms_of_layer(const ModelSpec& m, const LayerSpec& layer) {
  const std::int64_t both =
      (layer.mixer == Mixer::none ? 0 : 1) + (layer.feed_forward == FeedForward::none ? 0 : 1);
  const std::int64_t branches = m.parallel_block ? 1 : both;
  return branches * (m.norm_placement == NormPlacement::sandwich ? 2 : 1);
}
std::int64_t norm_parameters(const ModelSpec& m) {
  return m.norm_kind == NormKind::layer ? 2 * m.hidden_size : m.hidden_size;
}

// In one layer, with the router and the shared expert.
std::int64_t expert_parameters(const ModelSpec& m) {
  const std::int64_t h = m.hidden_size;
  const std::int64_t f = m.moe_ffn_hidden_size;
  const std::int64_t of_columns = (matrices_of(m) - 1) * f;
  const std::int64_t row = m.moe_latent_size > 0 ? m.moe_latent_size : h;
  const std::int64_t biases = (m.moe_router_logit_bias ? m.num_experts : 0) +
                              (m.moe_expert_bias ? m.num_experts * (of_columns + row) : 0);
  const std::int64_t gate = m.moe_shared_gate ? h : 0;
  const std::int64_t matrices =
      matrices_of(m) * (m.num_experts * f * row + m.moe_shared_ffn_hidden_size * h);
  return m.num_experts * h + matrices + 2 * h * m.moe_latent_size + biases + gate;
}

// Queries, keys and values, in one layer.
std::int64_t projection_parameters(const ModelSpec& m, const HeadOptions& own) {
  const std::int64_t h = m.hidden_size;
  const std::int64_t heads = own.num_attention_heads;
  const std::int64_t a = own.head_dim * heads;
  const std::int64_t values = own.keys_are_values ? 0 : own.value_head_dim;
  if (!m.is_latent()) return h * a + h * (own.head_dim + values) * own.num_query_groups;
  const std::int64_t q = m.q_lora_rank;
  const std::int64_t r = m.kv_lora_rank;
  const std::int64_t queries = q > 0 ? h * q + q + q * a : h * a;
  return queries + h * (r + m.qk_rope_head_dim) + r +
         r * heads * (m.qk_nope_head_dim + m.value_head_dim);
}

// One layer's, without its feed-forward and the norms of its branches.
std::int64_t attention_parameters(const ModelSpec& m, const LayerSpec& layer) {
  const std::int64_t h = m.hidden_size;
  const HeadOptions own = m.heads_of(layer);
  const std::int64_t a = own.head_dim * own.num_attention_heads;
  const std::int64_t k = own.head_dim * own.num_query_groups;
  const std::int64_t v = own.keys_are_values ? 0 : own.value_head_dim * own.num_query_groups;
  const std::int64_t y = own.value_head_dim * own.num_attention_heads;
  const std::int64_t norms = m.query_key_norm == QueryKeyNorm::per_head ? 2 * own.head_dim
                             : m.query_key_norm == QueryKeyNorm::whole  ? a + k
                                                                        : 0;
  const std::int64_t gate = m.attention_output_gate ? h * y
                            : m.attention_head_gate ? h * own.num_attention_heads
                                                    : 0;
  const std::int64_t biases =
      (m.query_key_value_bias ? a + k + v : 0) + (m.attention_out_bias ? h : 0);
  return projection_parameters(m, own) + h * y + norms + biases + gate +
         (layer.sinks ? own.num_attention_heads : 0);
}

std::int64_t mixer_parameters(const ModelSpec& m, const LayerSpec& layer) {
  switch (layer.mixer) {
    case Mixer::attention:
      return attention_parameters(m, layer);
    case Mixer::delta_net:
      return delta_net_parameters(m);
    case Mixer::mamba:
      return mamba_parameters(m);
    case Mixer::attention_mamba:
      return attention_parameters(m, layer) + mamba_parameters(m);
    case Mixer::none:
      return 0;
  }
  return 0;
}

std::int64_t feed_forward_parameters(const ModelSpec& m, const LayerSpec& layer) {
  const std::int64_t h = m.hidden_size;
  const std::int64_t f = m.ffn_hidden_size;
  if (layer.feed_forward == FeedForward::experts) return expert_parameters(m);
  if (layer.feed_forward == FeedForward::none) return 0;
  return matrices_of(m) * h * f + (m.mlp_bias ? (matrices_of(m) - 1) * f + h : 0);
}

std::int64_t llama_layer_parameters(const ModelSpec& m, const LayerSpec& layer) {
  return mixer_parameters(m, layer) + feed_forward_parameters(m, layer) +
         norms_of_layer(m, layer) * norm_parameters(m);
}

std::int64_t llama_parameters(const ModelSpec& m) {
  const std::int64_t table = m.vocab_size * m.hidden_size;
  std::int64_t layers = 0;
  m.visit_layers([&](const LayerSpec& layer) { layers += llama_layer_parameters(m, layer); });
  return table + layers + norm_parameters(m) + (m.tied_embeddings ? 0 : table);
}

std::int64_t mlp_parameters(const ModelSpec& m) {
  const std::int64_t f = m.ffn_hidden_size;
  return m.hidden_size * f + f + (m.num_layers - 1) * (f * f + f) + f * m.vocab_size + m.vocab_size;
}

// As the layer says, or, if it says nothing, by its place.
FeedForward feed_forward_of(const ModelSpec& m, FeedForward said, std::int64_t index) {
  if (said == FeedForward::none) return said;
  if (said == FeedForward::automatic) {
    said = index >= m.first_dense_layers ? FeedForward::experts : FeedForward::dense;
  }
  return m.num_experts > 0 ? said : FeedForward::dense;
}

std::int64_t count_feed_forwards(const ModelSpec& model, FeedForward counted) {
  std::int64_t count = 0;
  model.visit_layers(
      [&](const LayerSpec& layer) { count += layer.feed_forward == counted ? 1 : 0; });
  return count;
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

// Nothing is kept: a few bytes of a file can say many layers.
void ModelSpec::visit_layers(const std::function<void(const LayerSpec&)>& visit) const {
  std::size_t run = 0;
  std::int64_t seen = 0;  // Layers of the run.
  for (std::int64_t i = 0; i < num_layers; ++i, ++seen) {
    LayerSpec layer;
    if (!layers.empty()) {
      if (seen > 0 && seen >= layers[run].repeats) {
        run = (run + 1) % layers.size();
        seen = 0;
      }
      layer = layers[run];
    }
    layer.repeats = 1;
    layer.feed_forward = feed_forward_of(*this, layer.feed_forward, i);
    visit(layer);
  }
}

std::vector<LayerSpec> ModelSpec::each_layer() const {
  std::vector<LayerSpec> each;
  visit_layers([&each](const LayerSpec& layer) { each.push_back(layer); });
  return each;
}

bool ModelSpec::has_experts(std::int64_t index) const {
  const FeedForward said = layers.empty() ? FeedForward::automatic : layer(index).feed_forward;
  return feed_forward_of(*this, said, index) == FeedForward::experts;
}

Mixer ModelSpec::mixer_of(std::int64_t index) const {
  return layers.empty() ? Mixer::attention : layer(index).mixer;
}

bool ModelSpec::divides_groups(std::int64_t tp) const {
  const std::vector<HeadOptions> kinds = kinds_of_heads();
  return std::all_of(kinds.begin(), kinds.end(), [&](const HeadOptions& heads) {
    return divides_groups(tp, heads.num_query_groups);
  });
}

bool ModelSpec::divides_groups(std::int64_t tp, std::int64_t groups) const {
  return shardsim::divides_groups(groups, tp, family == ModelFamily::llama);
}

std::int64_t ModelSpec::groups_of_rank(std::int64_t tp) const {
  std::int64_t shared = 0;
  for (const HeadOptions& heads : kinds_of_heads()) {
    const std::int64_t own = heads.num_query_groups / std::max<std::int64_t>(tp, 1);
    shared = std::gcd(shared, std::max<std::int64_t>(own, 1));
  }
  return shared;
}

std::int64_t ModelSpec::layers_with_experts() const {
  return count_feed_forwards(*this, FeedForward::experts);
}

std::int64_t ModelSpec::layers_with_dense() const {
  return count_feed_forwards(*this, FeedForward::dense);
}

std::int64_t ModelSpec::layers_mixed_by(Mixer mixer) const {
  std::int64_t count = 0;
  visit_layers([&](const LayerSpec& layer) { count += has_mixer(layer.mixer, mixer) ? 1 : 0; });
  return count;
}

HeadOptions ModelSpec::heads_of(const LayerSpec& layer) const {
  return layer.heads.beside({.num_attention_heads = num_attention_heads,
                             .num_query_groups = num_query_groups,
                             .head_dim = head_dim,
                             .value_head_dim = value_head_dim,
                             .rotary_dim = rotary_dim});
}

std::vector<HeadOptions> ModelSpec::kinds_of_heads() const {
  std::vector<HeadOptions> kinds;
  for (const LayerSpec& layer : layers) {
    if (!has_mixer(layer.mixer, Mixer::attention)) continue;
    const HeadOptions heads = heads_of(layer);
    if (std::find(kinds.begin(), kinds.end(), heads) == kinds.end()) kinds.push_back(heads);
  }
  if (kinds.empty()) kinds.push_back(heads_of({}));
  return kinds;
}

std::int64_t num_mtp_parameters(const ModelSpec& model) {
  if (model.mtp_num_layers == 0) return 0;
  const std::int64_t h = model.hidden_size;
  std::int64_t last = 0;
  model.visit_layers([&](const LayerSpec& layer) { last = llama_layer_parameters(model, layer); });
  const std::int64_t depth = 2 * h * h + 3 * norm_parameters(model) + last;
  return model.mtp_num_layers * depth;
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
