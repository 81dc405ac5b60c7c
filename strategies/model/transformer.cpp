#include "strategies/model/transformer.hpp"

#include <algorithm>

#include "sim/kernel/error.hpp"

#include "strategies/model/layer.hpp"
#include "strategies/model/loss.hpp"
#include "strategies/model/make_model.hpp"
#include "strategies/model/pass.hpp"
#include "strategies/model/token_data.hpp"
#include "strategies/sharding/tensor_parallel.hpp"

namespace shardsim {

namespace {

// Names in errors.
constexpr const char* kEmbedding = "embedding.tokens";
constexpr const char* kEmbeddingDropout = "embedding";

}  // namespace

Transformer::Transformer(const ModelOptions& options, const TransformerParts& parts)
    : options_(options),
      norm_(parts.norm),
      token_head_({.scale = options.logit_scale, .cap = options.final_logit_cap}, options.memory),
      table_(/*token_shards=*/options.sequence_parallel) {
  add_outer_parameters(parts.has_learned_positions);
  add_blocks(parts.blocks);
  std::vector<int> units;
  if (options_.tied_embeddings || options_.mtp_num_layers > 0) units.push_back(0);
  auto next = static_cast<int>(table_.units().size());
  if (!options_.tied_embeddings) add_head();
  add_depths(parts.blocks);
  while (next < static_cast<int>(table_.units().size())) units.push_back(next++);
  module_units_.push_back(std::move(units));
  list_module_parameters();
}

void Transformer::add_outer_parameters(bool has_learned_positions) {
  const std::int64_t h = options_.hidden_size;
  const Init init{Init::Kind::bell, kInitScale};
  table_.begin_unit(options_.tied_embeddings ? "root" : "embedding", UnitMatrices::tables);
  tokens_ = table_.add_split("embedding.tokens", {options_.vocab_size, h}, init, 0,
                             options_.tensor_parallel);
  if (has_learned_positions) {
    positions_ = table_.add("embedding.positions", {options_.max_position_embeddings, h}, init);
  }
  if (options_.tied_embeddings) {
    final_norm_ = static_cast<int>(table_.specs().size());
    norm_.add_parameters(table_, "final_norm");
    head_ = tokens_;
    head_end_ = static_cast<int>(table_.specs().size());
  }
}

void Transformer::add_blocks(const AllBranches& branches) {
  module_units_.push_back({0});
  for (int block = 0; block < static_cast<int>(options_.num_layers); ++block) {
    const std::string name = "blocks." + std::to_string(block);
    block_first_.push_back(static_cast<int>(table_.specs().size()));
    std::vector<int>& units = module_units_.emplace_back();
    auto unit = static_cast<int>(table_.units().size());
    table_.begin_unit(name);
    blocks_.emplace_back(options_, norm_, branches[to_size(block)], table_,
                         TransformerBlock::Id{block, name});
    table_.quantize_from(to_size(block_first_.back()), low_of(block));
    while (unit < static_cast<int>(table_.units().size())) units.push_back(unit++);
  }
  block_first_.push_back(static_cast<int>(table_.specs().size()));
}

void Transformer::add_head() {
  table_.begin_unit("head", UnitMatrices::tables);
  final_norm_ = static_cast<int>(table_.specs().size());
  norm_.add_parameters(table_, "final_norm");
  head_ = table_.add_split("head", {options_.vocab_size, options_.hidden_size},
                           {Init::Kind::bell, kInitScale}, 0, options_.tensor_parallel);
  head_end_ = static_cast<int>(table_.specs().size());
}

void Transformer::add_depths(const AllBranches& branches) {
  for (int depth = 0; depth < static_cast<int>(options_.mtp_num_layers); ++depth) {
    const std::size_t first = table_.specs().size();
    depths_.emplace_back(options_, norm_, branches[to_size(options_.num_layers + depth)], table_,
                         depth);
    table_.quantize_from(first, low_of(static_cast<int>(options_.num_layers) + depth));
  }
}

void Transformer::list_module_parameters() {
  const auto add = [&](int first, int end) {
    std::vector<int>& list = module_parameters_.back();
    for (int i = first; i < end; ++i) list.push_back(i);
  };
  module_parameters_.emplace_back();
  add(tokens_, std::max(tokens_, positions_) + 1);
  for (std::size_t block = 0; block + 1 < block_first_.size(); ++block) {
    module_parameters_.emplace_back();
    add(block_first_[block], block_first_[block + 1]);
  }
  module_parameters_.emplace_back();
  if (head_ == tokens_ || !depths_.empty()) add(tokens_, tokens_ + 1);
  add(final_norm_, head_end_);
  for (const PredictionDepth& depth : depths_) add(depth.first(), depth.end());
}

// Blocks are of the kind of the first that has the same options, but those with experts, whose
// tokens go where their layer sends them.
int Transformer::kind_of(int module) const {
  if (module == 0 || module == num_modules() - 1) return module;
  if (options_.has_experts(module - 1)) return module;
  int first = 0;
  while (options_.has_experts(first) || options_.layer(first) != options_.layer(module - 1) ||
         low_of(first) != low_of(module - 1)) {
    ++first;
  }
  return first + 1;
}

std::vector<OffloadModule> Transformer::readers_of_kept(int module) const {
  if (module == 0 || module == num_modules() - 1) return {};
  return blocks_[to_size(module - 1)].readers_of_kept();
}

bool Transformer::keeps_state(int module) const {
  if (module == 0) return false;
  if (module < num_modules() - 1) return blocks_[to_size(module - 1)].keeps_state();
  return std::any_of(depths_.begin(), depths_.end(),
                     [](const PredictionDepth& depth) { return depth.block_of().keeps_state(); });
}

std::vector<RouterBiasSpec> Transformer::router_biases() const {
  std::vector<RouterBiasSpec> specs;
  if (!options_.moe.router.has_choice_bias()) return specs;
  for (int block = 0; block < options_.num_blocks(); ++block) {
    if (!options_.has_experts(block)) continue;
    const bool is_ahead = block >= options_.num_layers;
    const std::string name = is_ahead ? "mtp." + std::to_string(block - options_.num_layers)
                                      : "blocks." + std::to_string(block);
    specs.push_back({.module = is_ahead ? num_modules() - 1 : block + 1,
                     .block = block,
                     .name = name + ".router.choice_bias",
                     .num_experts = options_.moe.num_experts,
                     .dtype = statistics_dtype(options_.dtype),
                     .update_rate = options_.moe.router.bias_update_rate});
  }
  return specs;
}

Shape Transformer::activation_shape(std::int64_t samples) const {
  if (!options_.sequence_parallel) return {samples, own_positions(), options_.hidden_size};
  const std::int64_t tokens = checked_product({samples, own_positions()});
  return {token_shard(tokens, options_.tensor_parallel, kEmbedding), options_.hidden_size};
}

Tensor Transformer::forward(int module, const ModelContext& context, const Tensor& input,
                            const Batch& batch, Saved& saved) const {
  require_context(context, options_);
  require_part(context, batch.part, options_);
  if (module == 0) return embed(pass_of(0, context, batch), batch, batch.inputs);
  if (module == num_modules() - 1) return forward_head(context, input, batch, saved);
  const TransformerBlock& block = blocks_[to_size(module - 1)];
  return block.forward(pass_of(module, context, batch), input, saved);
}

Tensor Transformer::backward(int module, const ModelContext& context, const Tensor& output_gradient,
                             const Batch& batch, Saved& saved) const {
  if (module == num_modules() - 1) return backward_head(context, batch, saved);
  if (module == 0) {
    backward_embedding(pass_of(0, context, batch), output_gradient, batch, batch.inputs, true);
    return {};
  }
  const TransformerBlock& block = blocks_[to_size(module - 1)];
  return block.backward(pass_of(module, context, batch), output_gradient, saved);
}

Pass Transformer::pass_of(int module, const ModelContext& context, const Batch& batch) const {
  if (options_.hidden_dropout > 0.0 && batch.first_sample < 0) {
    throw UsageError(
        "E0640",
        "dropout in module " + std::to_string(module) + " is not told which samples it sees",
        "set the batch's seed and first_sample on every pipeline stage");
  }
  const int block = module > 0 && module + 1 < num_modules() ? module - 1 : -1;
  const int first = block < 0 ? 0 : block_first_[to_size(block)];
  return {context,
          first,
          own_positions(),
          block,
          {options_.hidden_dropout, batch.seed, batch.first_sample * options_.seq_len, batch.part,
           options_.seq_len},
          batch.part,
          &batch,
          low_of(block)};
}

const LowPrecision* Transformer::low_of(int block) const {
  const auto layers = static_cast<int>(options_.num_layers);
  return block >= 0 && options_.low.takes(block, layers) ? &options_.low : nullptr;
}

VocabPart Transformer::vocab_part_of(const ModelContext& context) const {
  const TensorParallel* parallel = context.parallel.tensor;
  return parallel == nullptr ? VocabPart{0, options_.vocab_size, options_.vocab_size}
                             : vocab_part(options_.vocab_size, parallel->size(), parallel->rank());
}

TokenRows Transformer::rows_of(const ModelContext& context, const Batch& batch,
                               const Tensor& x) const {
  const TensorParallel* parallel = context.parallel.tensor;
  return {options_.seq_len, parallel == nullptr ? 0 : parallel->first_token(num_rows(x)),
          batch.part};
}

// y [b, s, h], or this rank's tokens of it
Tensor Transformer::embed(const Pass& pass, const Batch& batch, const Tensor& tokens) const {
  TensorParallel* parallel = pass.parallel.tensor;
  if (parallel != nullptr) parallel->begin_region(kEmbedding);
  Tensor y =
      token_embedding_forward(pass.runtime, tokens, pass.weight(tokens_), vocab_part_of(pass));
  if (parallel != nullptr) y = parallel->reduce_from(pass.runtime, std::move(y), kEmbedding);
  if (options_.embedding_scale != 1.0) scale_in_place(pass.runtime, y, options_.embedding_scale);
  if (positions_ >= 0) {
    position_embedding_forward(pass.runtime, pass.weight(positions_), y, rows_of(pass, batch, y));
  }
  apply_dropout(pass, kEmbeddingDropout, y);
  return y;
}

void Transformer::backward_embedding(const Pass& pass, const Tensor& output_gradient,
                                     const Batch& batch, const Tensor& tokens, bool is_last) const {
  Tensor dy = backward_dropout(pass, kEmbeddingDropout, output_gradient);
  if (positions_ >= 0) {
    add_weight_gradient(pass, {.kind = WeightGradient::Kind::positions,
                               .parameter = positions_,
                               .dy = dy,
                               .rows = rows_of(pass, batch, dy)});
  }
  if (options_.embedding_scale != 1.0) dy = scaled(pass.runtime, dy, options_.embedding_scale);
  add_weight_gradient(pass, {.kind = WeightGradient::Kind::tokens,
                             .parameter = tokens_,
                             .is_last = is_last,
                             .dy = dy,
                             .x = tokens,
                             .vocab = vocab_part_of(pass)});
}

Tensor Transformer::forward_head(const ModelContext& context, const Tensor& x, const Batch& batch,
                                 Saved& saved) const {
  const Pass pass = pass_of(num_modules() - 1, context, batch);
  saved.resize(depths_.empty() ? std::size_t{head_saved} : place_of_depth(depths_.size()));
  saved[head_x] = x;
  NormOutput norm = norm_.forward(pass, final_norm_, x);
  saved[head_norm] = std::move(norm.y);
  saved[head_statistics] = std::move(norm.statistics);
  TokenHead::Kept kept;
  Tensor loss = token_head_.forward(pass, head_, vocab_part_of(context), saved[head_norm],
                                    batch.targets, kept);
  saved[head_logits] = std::move(kept.logits);
  saved[head_lse] = std::move(kept.log_sum_exp);
  saved[head_kept] = std::move(kept.beside);
  return depths_.empty() ? loss : forward_depths(pass, batch, loss, saved);
}

Tensor Transformer::backward_head(const ModelContext& context, const Batch& batch,
                                  Saved& saved) const {
  const Pass pass = pass_of(num_modules() - 1, context, batch);
  Tensor carried;
  if (!depths_.empty()) carried = backward_depths(pass, batch, saved);
  TokenHead::Kept kept{std::move(saved[head_logits]), std::move(saved[head_lse]),
                       std::move(saved[head_kept])};
  // The embedding's backward still adds to a tied weight and reports it.
  Tensor dy = token_head_.backward(pass, head_, vocab_part_of(context), std::move(saved[head_norm]),
                                   {batch.targets, batch.loss_scale, head_ != tokens_}, kept);
  if (carried.defined()) add_in_place(pass.runtime, std::exchange(carried, Tensor()), dy);
  Tensor dx = norm_.backward(pass, final_norm_, dy, saved[head_x], saved[head_statistics]);
  saved.clear();
  return dx;
}

Batch Transformer::make_batch(Runtime& runtime, std::uint64_t seed, std::int64_t first,
                              std::int64_t count, double ignore_fraction,
                              const SequencePart& part) const {
  return make_token_batch(runtime,
                          {options_.vocab_size, options_.seq_len, seed, ignore_fraction, part},
                          first, count, static_cast<int>(options_.mtp_num_layers));
}

std::int64_t Transformer::count_targets(std::uint64_t seed, std::int64_t first, std::int64_t count,
                                        double ignore_fraction, const SequencePart& part,
                                        int loss) const {
  return count_kept({options_.vocab_size, options_.seq_len, seed, ignore_fraction, part}, first,
                    count, loss);
}

// Those of blocks and of depths.
std::vector<int> Transformer::parameters_of_layers() const {
  std::vector<int> list;
  const auto add = [&](int first, int end) {
    for (int i = first; i < end; ++i) list.push_back(i);
  };
  add(block_first_.front(), block_first_.back());
  for (const PredictionDepth& depth : depths_) add(depth.first(), depth.end());
  return list;
}

std::int64_t Transformer::model_flops_per_sample() const {
  // Every matrix in a block belongs to a linear layer, and so does the head's. A token passes only
  // some of the experts' matrices.
  // Each depth of multi-token prediction reads the head's weight again.
  std::int64_t elements =
      checked_product({num_losses(), options_.vocab_size, options_.hidden_size});
  for (const int i : parameters_of_layers()) {
    const Shape& shape = table_.specs()[to_size(i)].whole_shape();
    const bool is_of_experts = table_.specs()[to_size(i)].expert;  // A bias, if of rank 2.
    if (shape.rank() == 2 && !is_of_experts) elements += shape.numel();
    if (shape.rank() == 3) elements += shape.numel() / shape[0] * options_.moe.experts_per_token;
  }
  std::int64_t beside = 0;
  for (const TransformerBlock& block : blocks_) beside += block.forward_flops_per_sample();
  for (const PredictionDepth& depth : depths_) {
    beside += depth.block_of().forward_flops_per_sample();
  }
  return checked_product({3, 2, options_.seq_len, elements}) + checked_product({3, beside});
}

std::int64_t Transformer::model_flops_per_expert_token() const {
  // Gate, up and down of one expert; all blocks with experts are alike.
  const std::int64_t matrices = options_.activation.is_gated() ? 3 : 2;
  if (options_.moe.num_experts == 0) return 0;
  return checked_product(
      {3, 2, matrices, options_.moe.row_size(options_.hidden_size), options_.moe.ffn_hidden_size});
}

}  // namespace shardsim
