#include "sim/search/block_kinds.hpp"

#include <cstddef>

#include "strategies/model/make_model.hpp"

namespace shardsim {

namespace {

bool are_alike(const ModelOptions& options, int a, int b) {
  const auto layers = static_cast<int>(options.num_layers);
  return options.has_experts(a) == options.has_experts(b) && options.layer(a) == options.layer(b) &&
         options.low.takes(a, layers) == options.low.takes(b, layers);
}

}  // namespace

BlockKinds block_kinds_of(const ModelOptions& options) {
  BlockKinds kinds;
  for (int block = 0; block < static_cast<int>(options.num_layers); ++block) {
    std::size_t kind = 0;
    while (kind < kinds.example.size() && !are_alike(options, kinds.example[kind], block)) ++kind;
    if (kind == kinds.example.size()) kinds.example.push_back(block);
    kinds.of_block.push_back(static_cast<int>(kind));
  }
  return kinds;
}

ModelOptions block_alone(ModelOptions options, int block) {
  LayerOptions layer = options.layer(block);
  const bool has_experts = options.has_experts(block);
  if (layer.feed_forward != FeedForward::none) layer.feed_forward = FeedForward::automatic;
  if (!options.low.takes(block, static_cast<int>(options.num_layers))) {
    options.low.recipe = ScalingRecipe::none;
  }
  options.low.blocks_at_start = options.low.blocks_at_end = 0;
  options.num_layers = 1;
  options.mtp_num_layers = 0;
  if (!options.layers.empty()) options.layers = {layer};
  options.moe.first_dense_layers = 0;
  if (!has_experts) options.moe = {};
  return options;
}

}  // namespace shardsim
