#include <utility>

#include "strategies/model/transformer.hpp"

// Multi-token prediction in the last module of a transformer: each depth has an embedding of the
// tokens ahead, and a loss of the tokens behind these.
namespace shardsim {

namespace {

// [n] of n losses [1].
Tensor joined_losses(Runtime& runtime, const std::vector<Tensor>& losses) {
  const auto count = static_cast<std::int64_t>(losses.size());
  Tensor joined = new_activation(runtime, {count}, DType::fp64);
  runtime.compute(memory_op("join_losses", DType::fp64, 2 * joined.num_bytes()), [&] {
    for (std::size_t i = 0; i < losses.size(); ++i) {
      joined.set(static_cast<std::int64_t>(i), losses[i].get(0));
    }
  });
  return joined;
}

Pass at_block(Pass pass, int block) {
  pass.block = block;
  return pass;
}

}  // namespace

Tensor Transformer::forward_depths(const Pass& pass, const Batch& batch, const Tensor& loss,
                                   Saved& saved) const {
  std::vector<Tensor> losses = {loss};
  Tensor x = saved[head_norm];
  for (std::size_t i = 0; i < depths_.size(); ++i) {
    const PredictionDepth& depth = depths_[i];
    Tensor* const here = &saved[place_of_depth(i)];
    const TokensAhead& tokens = batch.ahead.at(i);
    Saved kept_of_depth;
    Tensor embedding = embed(at_block(pass, depth.block()), batch, tokens.inputs);
    x = depth.forward(pass, x, std::exchange(embedding, Tensor()), kept_of_depth);
    TokenHead::Kept kept;
    losses.push_back(
        token_head_.forward(pass, head_, vocab_part_of(pass), x, tokens.targets, kept));
    here[depth_output] = x;
    here[depth_logits] = std::move(kept.logits);
    here[depth_lse] = std::move(kept.log_sum_exp);
    here[depth_kept] = std::move(kept.beside);
    std::move(kept_of_depth.begin(), kept_of_depth.end(), here + depth_saved);
  }
  return joined_losses(pass.runtime, losses);
}

Tensor Transformer::backward_depths(const Pass& pass, const Batch& batch, Saved& saved) const {
  Tensor carried;
  for (std::size_t i = depths_.size(); i-- > 0;) {
    const PredictionDepth& depth = depths_[i];
    Tensor* const here = &saved[place_of_depth(i)];
    const TokensAhead& tokens = batch.ahead.at(i);
    TokenHead::Kept kept{std::move(here[depth_logits]), std::move(here[depth_lse]),
                         std::move(here[depth_kept])};
    const int loss = static_cast<int>(i) + 1;
    const double scale = batch.ahead_scales.empty() ? batch.loss_scale * loss_weight(loss)
                                                    : batch.ahead_scales.at(i);
    Tensor dy =
        token_head_.backward(pass, head_, vocab_part_of(pass), std::move(here[depth_output]),
                             {tokens.targets, scale, /*is_last=*/false}, kept);
    if (carried.defined()) add_in_place(pass.runtime, std::exchange(carried, Tensor()), dy);
    Saved kept_of_depth(std::make_move_iterator(here + depth_saved),
                        std::make_move_iterator(here + depth_saved + depth.num_saved()));
    PredictionDepth::Gradients gradients = depth.backward(pass, std::move(dy), kept_of_depth);
    backward_embedding(at_block(pass, depth.block()), gradients.embedding, batch, tokens.inputs,
                       /*is_last=*/false);
    carried = std::move(gradients.x);
  }
  return carried;
}

}  // namespace shardsim
