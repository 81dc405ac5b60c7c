#include <memory>
#include <utility>
#include <vector>

#include "sim/kernel/error.hpp"

#include "strategies/model/dense_mlp.hpp"
#include "strategies/model/expert_feed_forward.hpp"
#include "strategies/model/make_model.hpp"
#include "strategies/model/rotary_attention.hpp"
#include "strategies/model/shared_region.hpp"
#include "strategies/model/transformer.hpp"

// Llama, and what has grown from it: RMS norm before each branch, attention with rotary positions,
// and a gated MLP without biases, or experts. Norms, activation and the order of branches may be
// other ones.
// Source: Touvron et al., "LLaMA: Open and Efficient Foundation Language Models" (2023).
namespace shardsim {

namespace {

NormForm norm_form(const ModelOptions& options) {
  return {.is_layer = options.norm != NormKind::rms,
          .has_bias = options.norm == NormKind::layer,
          .is_zero_centred = options.norm_zero_centred};
}

void require_shape(const ModelOptions& options) {
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
  if (!options.parallel_block) return;
  if (options.moe.num_experts > 0) {
    throw UsageError("E0629",
                     "a parallel block leaves attention and MLP in one sum over tensor-parallel "
                     "ranks, but experts are no part of such a sum",
                     "switch parallel_block off, or set num_experts to 0");
  }
  if (options.norm_placement != NormPlacement::pre) {
    throw UsageError("E0629", "a parallel block has one norm, in front of its branches",
                     "use norm_placement pre, or switch parallel_block off");
  }
}

}  // namespace

std::unique_ptr<Model> make_llama(const ModelOptions& options) {
  require_transformer(options);
  const std::int64_t turned = options.rotary_size();
  if (turned < 0 || turned > options.head_size() || turned % 2 != 0) {
    throw UsageError("E0627",
                     concat("rotary positions turn pairs of elements, but ", turned, " of the ",
                            options.head_size(), " of a head"),
                     "choose rotary_dim, head_dim, or hidden_size / num_attention_heads, even");
  }
  require_shape(options);
  const auto attention = std::make_shared<RotaryAttention>(options);
  const auto dense = std::make_shared<DenseMlp>(
      options, DenseMlp::Options{"mlp", options.ffn_hidden_size, options.mlp_bias});
  const auto experts = std::make_shared<ExpertFeedForward>(options);
  TransformerParts parts{.norm = {options.hidden_size, options.norm_epsilon, norm_form(options)}};
  for (int block = 0; block < static_cast<int>(options.num_layers); ++block) {
    TransformerBlock::Branches& branches = parts.blocks.emplace_back();
    if (options.parallel_block) {
      branches.push_back(std::make_shared<SharedRegion>(
          "parallel", SharedRegion::Members{attention, dense}, block));
      continue;
    }
    branches.push_back(attention);
    if (options.has_experts(block)) {
      branches.push_back(experts);
    } else {
      branches.push_back(dense);
    }
  }
  return std::make_unique<Transformer>(options, std::move(parts));
}

}  // namespace shardsim
