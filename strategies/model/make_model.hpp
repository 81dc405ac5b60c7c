#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/hardware/framework_memory.hpp"

#include "strategies/model/context_attention.hpp"
#include "strategies/model/feed_forward_activation.hpp"
#include "strategies/model/graph_modules.hpp"
#include "strategies/model/layer_options.hpp"
#include "strategies/model/linear_mixer_options.hpp"
#include "strategies/model/low_precision.hpp"
#include "strategies/model/model.hpp"
#include "strategies/model/model_norm.hpp"
#include "strategies/model/query_temperature.hpp"
#include "strategies/model/recompute.hpp"
#include "strategies/model/routing.hpp"

// The families of models, by name. A new family is one file and one row in make_model.cpp.
namespace shardsim {

/// The norm of queries and keys: RMS norm, in front of rotary positions unless it says otherwise.
enum class QueryKeyNorm : std::uint8_t {
  none,
  per_head,    ///< Over each head, with one weight [d] that all heads share.
  whole,       ///< Over all heads together, with a weight for each element.
  weightless,  ///< Over each head, without a weight, behind rotary positions; in layers that have
               ///< these.
};

/// Every family reads what it needs of these.
struct ModelOptions {
  std::string family;                        ///< mlp, gpt2, llama.
  std::int64_t num_layers = 1;               ///< Blocks; mlp: hidden layers.
  std::int64_t hidden_size = 1;              ///< mlp: inputs.
  std::int64_t ffn_hidden_size = 1;          ///< mlp: size of the hidden layers.
  std::int64_t num_attention_heads = 1;      ///< Divides hidden_size, unless head_dim is given.
  std::int64_t num_query_groups = 1;         ///< Key and value heads; divides the heads.
  std::int64_t head_dim = 0;                 ///< 0: hidden_size / num_attention_heads.
  std::int64_t value_head_dim = 0;           ///< llama: elements of a value; 0: head_size().
  std::int64_t q_lora_rank = 0;              ///< Latent attention: r_q; 0: queries have no latent.
  std::int64_t kv_lora_rank = 0;             ///< llama: r_kv; 0: not latent attention.
  std::int64_t qk_nope_head_dim = 0;         ///< Latent attention: d_n,
  std::int64_t qk_rope_head_dim = 0;         ///< and d_r.
  std::int64_t vocab_size = 1;               ///< mlp: outputs.
  std::int64_t seq_len = 1;                  ///< Positions per sample; mlp: 1.
  std::int64_t max_position_embeddings = 1;  ///< gpt2: rows of the position table, >= seq_len.
  bool tied_embeddings = false;              ///< The head's weight is the token embedding's.
  double norm_epsilon = 1e-5;
  double rope_theta = 10000.0;                       ///< llama.
  std::int64_t rotary_dim = 0;                       ///< llama; 0: the whole head.
  QueryKeyNorm query_key_norm = QueryKeyNorm::none;  ///< llama.
  QueryTemperature query_temperature = {};           ///< llama, in layers without rotary.
  bool query_key_value_bias = false;                 ///< llama; gpt2 has it.
  bool attention_out_bias = false;                   ///< llama; gpt2 has it.
  bool attention_output_gate = false;                ///< llama: see output_gate_forward.
  bool attention_head_gate = false;                  ///< llama: the same, one for each head.
  bool value_norm = false;                           ///< llama: each value over its rms.
  double value_scale = 1.0;                          ///< llama: factor of values.
  double attention_scale = 0.0;                      ///< For scores; 0: 1 / sqrt(head size).
  double attention_logit_cap = 0.0;                  ///< See AttentionShape; 0: none.
  double final_logit_cap = 0.0;                      ///< See soft_cap_forward; 0: none.
  ActivationForm activation = {};                    ///< llama.
  bool mlp_bias = false;                             ///< llama, of dense MLPs; gpt2 has it.
  double mlp_gate_scale = 1.0;    ///< llama: factor of dense MLPs' gates, ahead of the activation,
  double mlp_output_scale = 1.0;  ///< and of their output.
  NormKind norm = NormKind::rms;  ///< llama; gpt2: layer.
  NormPlacement norm_placement = NormPlacement::pre;  ///< llama.
  bool norm_zero_centred = false;  ///< See NormForm; norms of queries and keys, too.
  bool parallel_block = false;     ///< llama: see SharedRegion.
  double embedding_scale = 1.0;    ///< Factor of the tokens' embeddings.
  double residual_scale = 1.0;     ///< Factor of each branch before it joins the stream.
  double logit_scale = 1.0;
  /// llama: depths of multi-token prediction, see PredictionDepth, on the last pipeline stage.
  std::int64_t mtp_num_layers = 0;
  double mtp_loss_scaling_factor = 0.1;  ///< Weight of all their losses together.
  /// The options of each block; empty: all are as LayerOptions{}.
  std::vector<LayerOptions> layers = {};
  DeltaNetOptions delta_net;  ///< For the blocks that mix by it, as
  MambaOptions mamba;         ///< this.
  DType dtype = DType::fp32;  ///< For weights in use and activations.
  /// mlp: whole numbers as weights and data, so that every gradient is exact in fp64.
  bool integer_valued = false;
  /// Rate for the embedding's output, and for both branches of a block before they join the
  /// residual.
  double hidden_dropout = 0.0;
  Recompute recompute = Recompute::none;
  /// Recompute::full ends where backward has all it reads: the last product of a block and what
  /// follows it are left out. Source: PyTorch, set_checkpoint_early_stop.
  bool recompute_stops_early = false;
  GraphModules graphs;  ///< The host launches each of these as one CUDA graph.
  RecomputeModules recompute_modules = kDefaultRecomputeModules;  ///< Read where it is selective.
  /// Parts that every layer is cut into, t. The model is then that of one tensor-parallel rank.
  int tensor_parallel = 1;
  /// Outside of cut regions, each rank has 1/t of the tokens.
  bool sequence_parallel = false;
  /// With that, products overlap what brings and sums tokens: see token_ring.hpp.
  bool overlaps_tensor_parallel = false;
  /// Shares that samples are cut into, c: each rank computes with one, see SequencePart.
  int context_parallel = 1;
  ContextAttention context_attention = kDefaultContextAttention;
  int ulysses_degree = 1;  ///< Neighbours that exchange heads, for a form that lets it be chosen.
  MoeOptions moe;          ///< llama.
  FrameworkMemory memory;  ///< Memory kept beside that of the layers.
  LowPrecision low;        ///< That of the linear layers of blocks.

  /// Blocks, with those of multi-token prediction, which come last.
  [[nodiscard]] int num_blocks() const { return static_cast<int>(num_layers + mtp_num_layers); }
  /// Blocks of multi-token prediction are as the last layer. REQUIRES: a transformer.
  [[nodiscard]] LayerOptions layer(int block) const {
    const std::int64_t listed = std::min<std::int64_t>(block, num_layers - 1);
    return layers.empty() ? LayerOptions{} : layers.at(static_cast<std::size_t>(listed));
  }
  /// The same model, with the heads of a block as its own.
  [[nodiscard]] ModelOptions with_heads_of(int block) const;
  /// Whether some block mixes so.
  [[nodiscard]] bool mixes_by(Mixer mixer) const;
  /// Whether recomputation is selective and takes this part.
  [[nodiscard]] bool recomputes(RecomputeModule module) const {
    return recompute == Recompute::selective && recompute_modules.has(module);
  }
  /// Whether the feed-forward of a block is experts.
  [[nodiscard]] bool has_experts(int block) const;
  [[nodiscard]] std::int64_t layers_with_experts() const;
  /// Elements of a head that rotary positions turn. REQUIRES: llama.
  [[nodiscard]] std::int64_t rotary_size() const {
    if (is_latent()) return qk_rope_head_dim;
    return rotary_dim > 0 ? rotary_dim : head_size();
  }
  /// Key and value heads of a tensor-parallel rank: at least one, of which neighbours have copies.
  [[nodiscard]] std::int64_t groups_of_rank() const {
    return std::max<std::int64_t>(num_query_groups / tensor_parallel, 1);
  }
  /// How many of t tensor-parallel ranks have a copy of the same key and value head.
  [[nodiscard]] int group_copies(int t) const {
    return family == "llama" ? static_cast<int>(copies_of_groups(num_query_groups, t)) : 1;
  }
  /// The same, of the layer that has the fewest of these heads.
  [[nodiscard]] int most_group_copies(int t) const;
  /// Whether queries, keys and values come from latents: see LatentAttention.
  [[nodiscard]] bool is_latent() const { return kv_lora_rank > 0; }
  /// Elements of a value, and of what a head attends to. REQUIRES: a transformer.
  [[nodiscard]] std::int64_t value_size() const {
    return value_head_dim > 0 ? value_head_dim : head_size();
  }
  /// Elements of a head of queries and keys. REQUIRES: a transformer.
  [[nodiscard]] std::int64_t head_size() const {
    if (is_latent()) return qk_nope_head_dim + qk_rope_head_dim;
    return head_dim > 0 ? head_dim : hidden_size / num_attention_heads;
  }
};

/// Throws UsageError, with the values, on an unknown family or sizes that do not fit together.
[[nodiscard]] std::unique_ptr<Model> make_model(const ModelOptions& options);

/// Families in the table, for help and errors.
[[nodiscard]] std::vector<std::string_view> model_families();

// For the files of families: one maker each, in the file of its name; make_model.cpp has the table.
// REQUIRES: options that make_model has checked.

[[nodiscard]] std::unique_ptr<Model> make_mlp(const ModelOptions& options);
[[nodiscard]] std::unique_ptr<Model> make_gpt2(const ModelOptions& options);
[[nodiscard]] std::unique_ptr<Model> make_llama(const ModelOptions& options);

/// Throws UsageError unless heads and groups fit together and are divisible among tensor-parallel
/// ranks, and the values are to be real numbers.
void require_transformer(const ModelOptions& options);

/// Throws UsageError unless the context has the tensor parallelism that the model was made for. On
/// shapes alone a model of parts may run without: only the order of its gradients is then wanted.
void require_context(const ModelContext& context, const ModelOptions& options);
/// The same of context parallelism; `part` is the batch's, which must be the rank's.
void require_part(const ModelContext& context, const SequencePart& part,
                  const ModelOptions& options);

}  // namespace shardsim
