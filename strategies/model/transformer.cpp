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
constexpr const char* kHead = "head";
constexpr const char* kEmbeddingDropout = "embedding";

// Tensors that the head keeps for backward.
enum HeadSaved : std::size_t {
  head_x,
  head_norm,
  head_statistics,
  head_logits,
  head_lse,
  head_kept,  // See FrameworkMemory.
  head_saved
};

}  // namespace

Transformer::Transformer(const ModelOptions& options, TransformerParts parts)
    : options_(options), norm_(parts.norm), table_(/*token_shards=*/options.sequence_parallel) {
  add_outer_parameters(parts.has_learned_positions);
  add_blocks(std::move(parts.blocks));
  if (!options_.tied_embeddings) add_head();
  module_units_.push_back(
      {options_.tied_embeddings ? 0 : static_cast<int>(table_.units().size()) - 1});
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
  }
}

void Transformer::add_blocks(std::vector<TransformerBlock::Branches> branches) {
  module_units_.push_back({0});
  for (int block = 0; block < static_cast<int>(options_.num_layers); ++block) {
    const std::string name = "blocks." + std::to_string(block);
    block_first_.push_back(static_cast<int>(table_.specs().size()));
    std::vector<int>& units = module_units_.emplace_back();
    auto unit = static_cast<int>(table_.units().size());
    table_.begin_unit(name);
    blocks_.emplace_back(options_, norm_, std::move(branches[to_size(block)]), table_, block);
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
  // The final norm ends its unit, but for a head of its own.
  const ParameterUnit& unit = table_.units()[to_size(module_units_.back().front())];
  module_parameters_.emplace_back();
  if (head_ == tokens_) add(tokens_, tokens_ + 1);
  add(final_norm_, unit.first + unit.count);
}

// Blocks are of the kind of the first that has the same options, but those with experts, whose
// tokens go where their layer sends them.
int Transformer::kind_of(int module) const {
  if (module == 0 || module == num_modules() - 1) return module;
  if (options_.has_experts(module - 1)) return module;
  int first = 0;
  while (options_.has_experts(first) || options_.layer(first) != options_.layer(module - 1)) {
    ++first;
  }
  return first + 1;
}

bool Transformer::keeps_state(int module) const {
  const bool is_block = module > 0 && module < num_modules() - 1;
  return is_block && blocks_[to_size(module - 1)].keeps_state();
}

std::vector<RouterBiasSpec> Transformer::router_biases() const {
  std::vector<RouterBiasSpec> specs;
  if (!options_.moe.router.has_choice_bias()) return specs;
  for (int block = 0; block < static_cast<int>(options_.num_layers); ++block) {
    if (!options_.has_experts(block)) continue;
    specs.push_back({.module = block + 1,
                     .block = block,
                     .name = "blocks." + std::to_string(block) + ".router.choice_bias",
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
  if (module == 0) return forward_embedding(context, batch);
  if (module == num_modules() - 1) return forward_head(context, input, batch, saved);
  const TransformerBlock& block = blocks_[to_size(module - 1)];
  Tensor y = block.forward(pass_of(module, context, batch), input, saved);
  if (options_.recompute == Recompute::full) saved.resize(1);  // The input.
  return y;
}

Tensor Transformer::backward(int module, const ModelContext& context, const Tensor& output_gradient,
                             const Batch& batch, Saved& saved) const {
  if (module == num_modules() - 1) return backward_head(context, batch, saved);
  if (module == 0) {
    backward_embedding(context, output_gradient, batch);
    return {};
  }
  const TransformerBlock& block = blocks_[to_size(module - 1)];
  const Pass pass = pass_of(module, context, batch);
  if (options_.recompute == Recompute::full) {
    const Tensor input = saved[0];
    (void)block.forward(pass, input, saved);
  }
  return block.backward(pass, output_gradient, saved);
}

Pass Transformer::pass_of(int module, const ModelContext& context, const Batch& batch) const {
  if (options_.hidden_dropout > 0.0 && batch.first_sample < 0) {
    throw UsageError(
        "E0640",
        "dropout in module " + std::to_string(module) + " is not told which samples it sees",
        "set the batch's seed and first_sample on every pipeline stage");
  }
  const int block = module > 0 && module + 1 < num_modules() ? module - 1 : -1;
  const int first = block < 0 ? final_norm_ : block_first_[to_size(block)];
  return {context,
          first,
          own_positions(),
          block,
          {options_.hidden_dropout, batch.seed, batch.first_sample * options_.seq_len, batch.part,
           options_.seq_len},
          batch.part,
          &batch};
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
Tensor Transformer::forward_embedding(const ModelContext& context, const Batch& batch) const {
  TensorParallel* parallel = context.parallel.tensor;
  if (parallel != nullptr) parallel->begin_region(kEmbedding);
  Tensor y = token_embedding_forward(context.runtime, batch.inputs,
                                     context.parameters.weight(tokens_), vocab_part_of(context));
  if (parallel != nullptr) y = parallel->reduce_from(context.runtime, std::move(y), kEmbedding);
  if (options_.embedding_scale != 1.0) {
    scale_in_place(context.runtime, y, options_.embedding_scale);
  }
  if (positions_ >= 0) {
    position_embedding_forward(context.runtime, context.parameters.weight(positions_), y,
                               rows_of(context, batch, y));
  }
  apply_dropout(pass_of(0, context, batch), kEmbeddingDropout, y);
  return y;
}

void Transformer::backward_embedding(const ModelContext& context, const Tensor& output_gradient,
                                     const Batch& batch) const {
  Tensor dy = backward_dropout(pass_of(0, context, batch), kEmbeddingDropout, output_gradient);
  if (positions_ >= 0) {
    add_weight_gradient(context, {.kind = WeightGradient::Kind::positions,
                                  .parameter = positions_,
                                  .dy = dy,
                                  .rows = rows_of(context, batch, dy)});
  }
  if (options_.embedding_scale != 1.0) dy = scaled(context.runtime, dy, options_.embedding_scale);
  add_weight_gradient(context, {.kind = WeightGradient::Kind::tokens,
                                .parameter = tokens_,
                                .dy = dy,
                                .x = batch.inputs,
                                .vocab = vocab_part_of(context)});
}

// x [b, s, h] -> logits [b, s, v] -> loss [1]
Tensor Transformer::forward_head(const ModelContext& context, const Tensor& x, const Batch& batch,
                                 Saved& saved) const {
  const Pass pass = pass_of(num_modules() - 1, context, batch);
  saved.resize(head_saved);
  saved[head_x] = x;
  NormOutput norm = norm_.forward(pass, 0, x);
  saved[head_norm] = std::move(norm.y);
  saved[head_statistics] = std::move(norm.statistics);
  saved[head_logits] = linear_forward(context.runtime, enter_region(pass, saved[head_norm], kHead),
                                      context.parameters.weight(head_), {});
  if (options_.logit_scale != 1.0) {
    scale_in_place(context.runtime, saved[head_logits], options_.logit_scale);
  }
  if (options_.final_logit_cap > 0.0) {
    soft_cap_forward(context.runtime, saved[head_logits], options_.final_logit_cap);
  }
  const auto logits = static_cast<double>(saved[head_logits].numel());
  saved[head_kept] =
      context.runtime.occupy(MemoryCategory::activations, logits * options_.memory.loss_kept_bytes);
  const Tensor beside = context.runtime.occupy(MemoryCategory::activations,
                                               logits * options_.memory.loss_forward_bytes);
  CrossEntropyOutput out;
  if (context.parallel.tensor == nullptr) {
    out = cross_entropy_forward(context.runtime, saved[head_logits], batch.targets);
  } else {
    context.parallel.tensor->end_region(kHead);
    out = vocab_parallel_cross_entropy_forward(context.runtime, *context.parallel.tensor,
                                               saved[head_logits], batch.targets,
                                               vocab_part_of(context));
  }
  saved[head_lse] = std::move(out.log_sum_exp);
  return std::move(out.loss);
}

Tensor Transformer::backward_head(const ModelContext& context, const Batch& batch,
                                  Saved& saved) const {
  const Pass pass = pass_of(num_modules() - 1, context, batch);
  Tensor beside = context.runtime.occupy(
      MemoryCategory::activations,
      static_cast<double>(saved[head_logits].numel()) * options_.memory.loss_backward_bytes);
  cross_entropy_backward(context.runtime, saved[head_logits], batch.targets, saved[head_lse],
                         batch.loss_scale, vocab_part_of(context),
                         {.scale = options_.logit_scale, .cap = options_.final_logit_cap});
  // Logits are their gradient from here on.
  beside = saved[head_lse] = saved[head_kept] = {};
  // The sums over a vocabulary's shards are statistics.
  if (statistics_dtype(options_.dtype) == options_.dtype) {
    round_shared_sum(context.runtime, saved[head_logits], SumOver::tensor_ranks);
  }
  if (context.parallel.tensor != nullptr) context.parallel.tensor->begin_region(kHead);
  // The embedding's backward still adds to a tied weight and reports it.
  ColumnLinear reader{
      .k = head_ - final_norm_, .is_last = head_ != tokens_, .dy = std::move(saved[head_logits])};
  const Tensor dy = backward_columns(pass, {&reader, 1}, std::move(saved[head_norm]), kHead);
  Tensor dx = norm_.backward(pass, 0, dy, saved[head_x], saved[head_statistics]);
  saved.clear();
  return dx;
}

Batch Transformer::make_batch(Runtime& runtime, std::uint64_t seed, std::int64_t first,
                              std::int64_t count, double ignore_fraction,
                              const SequencePart& part) const {
  return make_token_batch(
      runtime, {options_.vocab_size, options_.seq_len, seed, ignore_fraction, part}, first, count);
}

std::int64_t Transformer::count_targets(std::uint64_t seed, std::int64_t first, std::int64_t count,
                                        double ignore_fraction, const SequencePart& part) const {
  return count_kept({options_.vocab_size, options_.seq_len, seed, ignore_fraction, part}, first,
                    count);
}

std::int64_t Transformer::model_flops_per_sample() const {
  // Every matrix in a block belongs to a linear layer, and so does the head's. A token passes only
  // some of the experts' matrices.
  std::int64_t elements = checked_product({options_.vocab_size, options_.hidden_size});
  for (int i = block_first_.front(); i < block_first_.back(); ++i) {
    const Shape& shape = table_.specs()[to_size(i)].whole_shape();
    const bool is_of_experts = table_.specs()[to_size(i)].expert;  // A bias, if of rank 2.
    if (shape.rank() == 2 && !is_of_experts) elements += shape.numel();
    if (shape.rank() == 3) elements += shape.numel() / shape[0] * options_.moe.experts_per_token;
  }
  std::int64_t beside = 0;
  for (const TransformerBlock& block : blocks_) beside += block.forward_flops_per_sample();
  return checked_product({3, 2, options_.seq_len, elements}) + checked_product({3, beside});
}

std::int64_t Transformer::model_flops_per_expert_token() const {
  // Gate, up and down of one expert; all blocks with experts are alike.
  const std::int64_t matrices = options_.activation.is_gated() ? 3 : 2;
  if (options_.moe.num_experts == 0) return 0;
  return checked_product({3, 2, matrices, options_.hidden_size, options_.moe.ffn_hidden_size});
}

}  // namespace shardsim
