#include "strategies/model/linear_operands.hpp"

#include <utility>
#include <vector>

#include "strategies/model/element_chance.hpp"
#include "strategies/model/pass.hpp"
#include "strategies/model/quantized_weights.hpp"
#include "strategies/sharding/context_parallel.hpp"
#include "strategies/sharding/expert_parallel.hpp"
#include "strategies/sharding/tensor_parallel.hpp"

namespace shardsim {

namespace {

Written writer_of(Held held) {
  return held == Held::norm_output ? Written::by_norm : Written::by_others;
}

// The ranks that have slices of the same experts.
ScaleGroups slice_groups(const ModelContext& context) {
  const ExpertParallel* const expert = context.parallel.expert;
  return {.tensor = expert == nullptr ? nullptr : expert->slice_group()};
}

// The microbatches of many ranks that a batch stands for: each is quantized by itself. Blocks of
// scales do not reach beyond one, so these need no runs.
std::vector<std::int64_t> microbatches_of(const Pass& pass, const Tensor& x) {
  if (pass.batch == nullptr || !row_of(pass.low->recipe).reads_for_scale) return {};
  const std::int64_t each = pass.batch->routing.microbatch_samples * pass.seq_len;
  const std::int64_t rows = num_rows(x);
  if (each == 0 || rows == each) return {};
  return std::vector<std::int64_t>(to_size(rows / each), each);
}

ElementPlaces places_of(const Pass& pass, const Tensor& x, int layer, const LinearOperand& place) {
  ElementPlaces places{.layer = layer,
                       .seq_len = pass.seq_len * pass.part.parts,
                       .part = pass.part,
                       .runs = place.run_keys};
  if (pass.batch != nullptr) {
    places.seed = pass.batch->seed;
    places.first_sample = pass.batch->first_sample;
  }
  const TensorParallel* const tensor = pass.parallel.tensor;
  const ExpertParallel* const expert = pass.parallel.expert;
  if (place.held == Held::channels && tensor != nullptr) {
    places.first_column = tensor->rank() * last_dim(x);
  } else if (place.held == Held::expert_channels && expert != nullptr) {
    places.first_column = expert->group().slice * last_dim(x);
  } else if (place.held == Held::tokens && tensor != nullptr) {
    places.first_token = tensor->first_token(num_rows(x));
  }
  return places;
}

// The ranks that have the other parts of such a tensor.
ScaleGroups scale_groups(const Pass& pass, Held held) {
  ScaleGroups groups;
  if (held == Held::apart) return groups;
  if (held == Held::expert_channels) return slice_groups(pass);
  TensorParallel* const tensor = pass.parallel.tensor;
  const bool is_share = held == Held::tokens || held == Held::norm_output;
  const bool is_cut =
      held == Held::channels || (is_share && tensor != nullptr && tensor->sequence_parallel());
  if (tensor != nullptr && is_cut) groups.tensor = &tensor->group();
  if (pass.parallel.context != nullptr) groups.context = &pass.parallel.context->group();
  return groups;
}

// Those that agree on the scales of a weight's copies.
ScaleGroups weight_scale_groups(const ModelContext& context, const Tensor& weight) {
  if (weight.shape().rank() > 2) return slice_groups(context);
  if (context.parallel.tensor == nullptr) return {};
  return {.tensor = &context.parallel.tensor->group()};
}

}  // namespace

CastOptions weight_cast(const ModelContext& context, int index, const Tensor& weight) {
  return {.site = {index, OperandKind::weight},
          .delayed = context.parallel.delayed_scales,
          .groups = weight_scale_groups(context, weight)};
}

QuantizedTensor quantized(const Pass& pass, const Tensor& x, Copies copies, Operand operand,
                          const LinearOperand& place) {
  const RecipeRow& recipe = row_of(pass.low->recipe);
  const int layer = pass.first + place.k;
  CastOptions options{.operand = operand, .by = writer_of(place.held), .runs = place.runs};
  options.groups = scale_groups(pass, place.held);
  ElementPlaces places;
  if (recipe.rounds_by_chance && operand == Operand::gradient) {
    places = places_of(pass, x, layer, place);
    options.places = &places;
  }
  if (pass.low->recipe == ScalingRecipe::delayed) {
    options.site = {pass.parameters.number_here(layer),
                    operand == Operand::value ? OperandKind::input : OperandKind::gradient};
    options.delayed = pass.parallel.delayed_scales;
  }
  const std::vector<std::int64_t> microbatches =
      place.runs.empty() ? microbatches_of(pass, x) : std::vector<std::int64_t>();
  if (!microbatches.empty()) options.runs = microbatches;
  return quantize(pass.runtime, *pass.low, x, copies, options);
}

LinearWeight quantized_weight(const Pass& pass, int k, Copies read) {
  LinearWeight found{pass.weight(k), {}};
  found.product = product_of(*pass.low, found.weight);
  if (pass.quantizes_at_use) {
    found.made = quantize_weight(
        pass.runtime, *pass.low, found.weight, read,
        weight_cast(pass, pass.parameters.number_here(pass.first + k), found.weight));
  } else if (pass.quantized_weights != nullptr) {
    pass.runtime.off_the_clock(
        [&] { found.made = pass.quantized_weights->copies_of(found.weight); });
  }
  return found;
}

Tensor linear_input(const Pass& pass, Tensor x, Tensor& columns, const LinearOperand& place) {
  if (pass.low == nullptr) {
    columns = x;
    return x;
  }
  QuantizedTensor made = quantized(pass, x, Copies::both, Operand::value, place);
  columns = std::move(made.columns);
  return std::move(made.rows);
}

Tensor linear_input(const Pass& pass, Tensor& x, const LinearOperand& place) {
  return pass.low == nullptr ? x : linear_input(pass, std::move(x), x, place);
}

void make_columns(const Pass& pass, Tensor& x, const LinearOperand& place) {
  if (pass.low == nullptr || is_quantized(x)) return;
  x = quantized(pass, x, Copies::columns, Operand::value, place).columns;
}

LinearGradient linear_gradient(const Pass& pass, const Tensor& dy, const LinearOperand& place) {
  if (pass.low == nullptr) return {dy, dy, last_dim(dy)};
  QuantizedTensor made = quantized(pass, dy, Copies::both, Operand::gradient, place);
  return {std::move(made.rows), std::move(made.columns), last_dim(dy)};
}

}  // namespace shardsim
