#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "sim/kernel/error.hpp"

#include "strategies/model/dense_mlp.hpp"
#include "strategies/model/expert_feed_forward.hpp"
#include "strategies/model/gated_delta_net.hpp"
#include "strategies/model/latent_attention.hpp"
#include "strategies/model/make_model.hpp"
#include "strategies/model/mamba_mixer.hpp"
#include "strategies/model/rotary_attention.hpp"
#include "strategies/model/shared_region.hpp"
#include "strategies/model/transformer.hpp"

// Llama, and what has grown from it: RMS norm before each branch, attention with rotary positions
// or from latents, or a recurrence in its place, and a gated MLP without biases, or experts. Norms,
// activation and the order of branches may be other ones.
// Source: Touvron et al., "LLaMA: Open and Efficient Foundation Language Models" (2023).
namespace shardsim {

namespace {

// Latent attention is itself: it has norms of its latents, a key per query, and nothing else.
void require_latent(const ModelOptions& o) {
  if (o.q_lora_rank < 0 || o.qk_nope_head_dim < 1 || o.qk_rope_head_dim < 2 ||
      o.value_head_dim < 1) {
    throw UsageError("E0649",
                     concat("latent attention has a latent of queries of ", o.q_lora_rank,
                            ", heads of ", o.qk_nope_head_dim, " + ", o.qk_rope_head_dim,
                            " elements and values of ", o.value_head_dim),
                     "give q_lora_rank 0 or more, and sizes of heads above 0, rotary ones even");
  }
  const bool has_sinks = std::any_of(o.layers.begin(), o.layers.end(),
                                     [](const LayerOptions& layer) { return layer.has_sinks; });
  const bool has_more = o.query_key_norm != QueryKeyNorm::none || o.query_key_value_bias ||
                        o.attention_out_bias || o.attention_output_gate || o.attention_head_gate ||
                        o.value_norm || o.value_scale != 1.0 || has_sinks ||
                        o.mixes_by(Mixer::attention_mamba);
  if (!has_more && o.num_query_groups == o.num_attention_heads) return;
  throw UsageError("E0649",
                   "latent attention has one key per query, and no biases, gates, sinks or norms "
                   "of queries and keys",
                   "leave these out, or set kv_lora_rank to 0");
}

// Attention of each block: one for all with the same heads.
class Attentions {
 public:
  explicit Attentions(const ModelOptions& options) : options_(options) {}

  std::shared_ptr<const RegionBranch> of(int block) {
    const HeadOptions heads = options_.layer(block).heads;
    const auto made = std::find_if(made_.begin(), made_.end(),
                                   [&](const auto& each) { return each.first == heads; });
    if (made != made_.end()) return made->second;
    return made_.emplace_back(heads, make(block, heads)).second;
  }

 private:
  [[nodiscard]] std::shared_ptr<const RegionBranch> make(int block,
                                                         const HeadOptions& heads) const {
    if (options_.is_latent()) return std::make_shared<LatentAttention>(options_);
    return std::make_shared<RotaryAttention>(options_.with_heads_of(block), heads.keys_are_values);
  }

  const ModelOptions& options_;
  std::vector<std::pair<HeadOptions, std::shared_ptr<const RegionBranch>>> made_;
};

// Heads are the model's, or a block's own.
void require_heads(const ModelOptions& options) {
  require_transformer(options);
  const std::int64_t turned = options.rotary_size();
  if (turned >= 0 && turned <= options.head_size() && turned % 2 == 0) return;
  throw UsageError("E0627",
                   concat("rotary positions turn pairs of elements, but ", turned, " of the ",
                          options.head_size(), " of a head"),
                   "choose rotary_dim, head_dim, or hidden_size / num_attention_heads, even");
}

void require_all_heads(const ModelOptions& options) {
  require_heads(options);
  const LayerOptions* before = nullptr;
  for (int block = 0; block < static_cast<int>(options.layers.size()); ++block) {
    const LayerOptions& layer = options.layers[to_size(block)];
    const bool is_known = before != nullptr && before->heads == layer.heads;
    if (!is_known && layer.heads != HeadOptions{}) require_heads(options.with_heads_of(block));
    before = &layer;
  }
}

NormForm norm_form(const ModelOptions& options) {
  return {.is_layer = options.norm != NormKind::rms,
          .has_bias = options.norm == NormKind::layer,
          .is_zero_centred = options.norm_zero_centred};
}

void require_shape(const ModelOptions& options) {
  const QueryTemperature& temperature = options.query_temperature;
  if (!(temperature.scale >= 0.0) || temperature.floor < 1) {
    throw UsageError("E0629",
                     concat("queries are to grow by ", temperature.scale, " times a logarithm of ",
                            "runs of ", temperature.floor, " positions"),
                     "choose a scale of 0, for none, or more, and a floor of 1 or more");
  }
  if (options.attention_output_gate && options.attention_head_gate) {
    throw UsageError("E0629", "attention has a gate for each element, and one for each head",
                     "switch attention_output_gate or attention_head_gate off");
  }
  if (options.activation.kind == Activation::relu) {
    throw UsageError("E0629", "family llama has no feed-forward with a plain ReLU",
                     "use activation squared_relu, or family mlp");
  }
  if (!(options.activation.limit > 0.0)) {
    throw UsageError(
        "E0629",
        concat("a clamped SwiGLU with limit ", options.activation.limit, " has no values left"),
        "choose a swiglu_limit above 0");
  }
}

void require_parallel_block(const ModelOptions& options) {
  if (options.moe.num_experts > 0) {
    throw UsageError("E0629",
                     "a parallel block leaves attention and MLP in one sum over tensor-parallel "
                     "ranks, but experts are no part of such a sum",
                     "switch parallel_block off, or set num_experts to 0");
  }
  if (options.is_latent()) {
    throw UsageError("E0629",
                     "a parallel block enters and leaves one region with attention and MLP, but "
                     "latent attention works outside of it, too",
                     "switch parallel_block off, or set kv_lora_rank to 0");
  }
  if (options.recomputes(RecomputeModule::mlp)) {
    throw UsageError("E0629",
                     "a parallel block has attention and MLP in one region of tensor parallelism: "
                     "the MLP alone cannot run again",
                     "leave mlp out of the recomputed modules, or switch parallel_block off");
  }
  const auto is_other = [](const LayerOptions& layer) {
    return layer.mixer != Mixer::attention || layer.feed_forward == FeedForward::none;
  };
  if (std::any_of(options.layers.begin(), options.layers.end(), is_other)) {
    throw UsageError("E0629", "a parallel block has attention and an MLP in every layer",
                     "switch parallel_block off, or list layers of attention with an MLP");
  }
  if (options.norm_placement != NormPlacement::pre) {
    throw UsageError("E0629", "a parallel block has one norm, in front of its branches",
                     "use norm_placement pre, or switch parallel_block off");
  }
}

}  // namespace

std::unique_ptr<Model> make_llama(const ModelOptions& options) {
  require_all_heads(options);
  if (options.is_latent()) require_latent(options);
  require_linear_mixers(options);
  require_shape(options);
  if (options.parallel_block) require_parallel_block(options);
  Attentions attentions(options);
  const auto delta_net = std::make_shared<GatedDeltaNet>(options);
  const auto mamba = std::make_shared<MambaMixer>(options);
  const auto dense = std::make_shared<DenseMlp>(
      options,
      DenseMlp::Options{.name = "mlp",
                        .ffn_hidden_size = options.ffn_hidden_size,
                        .has_bias = options.mlp_bias,
                        .gate_scale = options.mlp_gate_scale,
                        .output_scale = options.mlp_output_scale,
                        .drops_activation = options.recomputes(RecomputeModule::activation),
                        .runs_again = options.recomputes(RecomputeModule::mlp)});
  const auto experts = std::make_shared<ExpertFeedForward>(options);
  TransformerParts parts{.norm = {options.hidden_size, options.norm_epsilon, norm_form(options)}};
  for (int block = 0; block < options.num_blocks(); ++block) {
    TransformerBlock::Branches& branches = parts.blocks.emplace_back();
    if (options.parallel_block) {
      branches.push_back(std::make_shared<SharedRegion>(
          "parallel", SharedRegion::Members{attentions.of(block), dense}, block));
      continue;
    }
    const LayerOptions layer = options.layer(block);
    if (layer.mixer == Mixer::attention_mamba) {
      branches.push_back(std::make_shared<SharedRegion>(
          "mixers", SharedRegion::Members{attentions.of(block), mamba}, block));
    }
    if (layer.mixer == Mixer::attention) branches.push_back(attentions.of(block));
    if (layer.mixer == Mixer::delta_net) branches.push_back(delta_net);
    if (layer.mixer == Mixer::mamba) branches.push_back(mamba);
    if (options.has_experts(block)) {
      branches.push_back(experts);
    } else if (layer.feed_forward != FeedForward::none) {
      branches.push_back(dense);
    }
  }
  return std::make_unique<Transformer>(options, std::move(parts));
}

}  // namespace shardsim
