#include "strategies/model/linear_operands.hpp"

#include <utility>
#include <vector>

#include "strategies/model/pass.hpp"
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

struct Quantizing {
  Copies copies;
  Operand operand;
  Held held;
};

QuantizedTensor quantized(const Pass& pass, const Tensor& x, const Quantizing& how, RunRows runs) {
  const std::vector<std::int64_t> microbatches =
      runs.empty() ? microbatches_of(pass, x) : std::vector<std::int64_t>();
  if (runs.empty()) runs = microbatches;
  return quantize(pass.runtime, *pass.low, x, how.copies,
                  {.operand = how.operand,
                   .groups = scale_groups(pass, how.held),
                   .by = writer_of(how.held),
                   .runs = runs});
}

}  // namespace

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

ScaleGroups weight_scale_groups(const ModelContext& context, const Tensor& weight) {
  if (weight.shape().rank() > 2) return slice_groups(context);
  if (context.parallel.tensor == nullptr) return {};
  return {.tensor = &context.parallel.tensor->group()};
}

LinearWeight quantized_weight(const Pass& pass, int k, Copies read) {
  LinearWeight found{pass.weight(k), {}};
  found.product = product_of(*pass.low, found.weight);
  if (pass.quantizes_at_use) {
    found.made = quantize_weight(pass.runtime, *pass.low, found.weight, read,
                                 weight_scale_groups(pass, found.weight));
  } else if (pass.quantized_weights != nullptr) {
    pass.runtime.off_the_clock(
        [&] { found.made = pass.quantized_weights->copies_of(found.weight); });
  }
  return found;
}

Tensor linear_input(const Pass& pass, Tensor x, Tensor& columns, Held held, RunRows runs) {
  if (pass.low == nullptr) {
    columns = x;
    return x;
  }
  QuantizedTensor made = quantized(pass, x, {Copies::both, Operand::value, held}, runs);
  columns = std::move(made.columns);
  return std::move(made.rows);
}

Tensor linear_input(const Pass& pass, Tensor& x, Held held, RunRows runs) {
  return pass.low == nullptr ? x : linear_input(pass, std::move(x), x, held, runs);
}

void make_columns(const Pass& pass, Tensor& x, Held held, RunRows runs) {
  if (pass.low == nullptr || is_quantized(x)) return;
  x = quantized(pass, x, {Copies::columns, Operand::value, held}, runs).columns;
}

LinearGradient linear_gradient(const Pass& pass, const Tensor& dy, Held held, RunRows runs) {
  if (pass.low == nullptr) return {dy, dy, last_dim(dy)};
  QuantizedTensor made = quantized(pass, dy, {Copies::both, Operand::gradient, held}, runs);
  return {std::move(made.rows), std::move(made.columns), last_dim(dy)};
}

}  // namespace shardsim
