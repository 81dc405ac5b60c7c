#include <memory>
#include <utility>
#include <vector>

#include "sim/kernel/error.hpp"

#include "strategies/model/expert_feed_forward.hpp"
#include "strategies/model/gated_delta_net.hpp"
#include "strategies/model/gated_mlp.hpp"
#include "strategies/model/make_model.hpp"
#include "strategies/model/mamba_mixer.hpp"
#include "strategies/model/rotary_attention.hpp"
#include "strategies/model/transformer.hpp"

// Llama, and what has grown from it: RMS norm before each branch, attention with rotary positions
// or a recurrence in its place, and a gated MLP without biases, or experts.
// Source: Touvron et al., "LLaMA: Open and Efficient Foundation Language Models" (2023).
namespace shardsim {

std::unique_ptr<Model> make_llama(const ModelOptions& options) {
  require_transformer(options);
  require_linear_mixers(options);
  const std::int64_t turned = options.rotary_size();
  if (turned < 0 || turned > options.head_size() || turned % 2 != 0) {
    throw UsageError("E0627",
                     concat("rotary positions turn pairs of elements, but ", turned, " of the ",
                            options.head_size(), " of a head"),
                     "choose rotary_dim, head_dim, or hidden_size / num_attention_heads, even");
  }
  const auto attention = std::make_shared<RotaryAttention>(options);
  const auto delta_net = std::make_shared<GatedDeltaNet>(options);
  const auto mamba = std::make_shared<MambaMixer>(options);
  const auto dense = std::make_shared<GatedMlp>(options, "mlp", options.ffn_hidden_size);
  const auto experts = std::make_shared<ExpertFeedForward>(options);
  TransformerParts parts{.norm = {options.hidden_size, options.norm_epsilon}};
  for (int block = 0; block < static_cast<int>(options.num_layers); ++block) {
    TransformerBlock::Branches& branches = parts.blocks.emplace_back();
    const LayerOptions layer = options.layer(block);
    if (layer.mixer == Mixer::attention) branches.push_back(attention);
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
