#include "sim/verify/sum_errors.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/kernel/rounding.hpp"

#include "strategies/model/layer.hpp"

#include "sim/harness/rounding_error.hpp"

namespace shardsim {

namespace {

// A single gradient, kept apart from those of the training.
class OneGradient final : public Parameters {
 public:
  OneGradient(Runtime& runtime, const Shape& shape)
      : tensor_(runtime.allocate(MemoryCategory::activations, shape, DType::fp64)) {}
  Tensor weight(int) override { return {}; }
  Tensor gradient(int) override { return tensor_; }
  void gradient_ready(int) override {}

 private:
  Tensor tensor_;
};

// Rows [first, first + count) of a tensor.
Tensor rows_of(const Tensor& tensor, std::int64_t first, std::int64_t count) {
  const std::int64_t width = last_dim(tensor);
  return tensor.view(first * width, {count, width});
}

ReferenceTensors zeros_of(const Model& model) {
  ReferenceTensors zeros;
  for (const ParameterSpec& spec : model.parameters()) {
    zeros.emplace_back(to_size(spec.shape.numel()), 0.0);
  }
  return zeros;
}

constexpr double kUniform = 12.0;  // The square of a width by the variance.

// Roundings after the sum over ranks: over replicas, over the shards of tokens, over the two stages
// of a tied weight; and the reference's own.
constexpr double kLastRoundings = 4.0;

}  // namespace

SumErrors::SumErrors(const Model& model, const SharedSum& shared, DType dtype)
    : model_(model),
      shared_(shared),
      dtype_(dtype),
      smallest_(smallest_normal(dtype)),
      terms_(zeros_of(model)),
      all_(terms_),
      squares_(terms_),
      variances_(terms_),
      of_ranks_(to_size(shared.ranks), terms_) {}

void SumErrors::round(std::size_t parameter, std::size_t element, double size, double times) {
  if (size == 0.0) return;
  // Subnormal numbers are rounded as coarsely as the smallest normal one.
  const double rounded = std::max(std::fabs(size), smallest_);
  all_[parameter][element] += times * rounded;
  squares_[parameter][element] += times * rounded * rounded;
  if (dtype_ == DType::fp64) return;  // Such a sum needs no bound.
  const double spacing = spacing_at(rounded, dtype_);
  variances_[parameter][element] += times * spacing * spacing / kUniform;
}

void SumErrors::add(Runtime& runtime, const WeightGradient& work) {
  using Kind = WeightGradient::Kind;
  const std::int64_t slices = shared_.slices;
  if (work.kind == Kind::sum || work.kind == Kind::grouped) {
    return add_one(runtime, work, std::sqrt(static_cast<double>(slices)));
  }
  const std::int64_t rows = num_rows(work.dy);
  for (std::int64_t slice = 0; slice < slices; ++slice) {
    const std::int64_t first = rows * slice / slices;
    const std::int64_t count = rows * (slice + 1) / slices - first;
    if (count == 0) continue;
    WeightGradient part = work;
    part.dy = rows_of(work.dy, first, count);
    if (work.kind == Kind::linear) part.x = rows_of(work.x, first, count);
    if (work.kind == Kind::tokens) part.x = work.x.view(first, {count});
    part.rows.first += first;
    add_one(runtime, std::move(part), 1.0);
  }
}

// A slice is rounded when it is added, and again in the sum of each microbatch that follows.
void SumErrors::add_one(Runtime& runtime, WeightGradient work, double factor) {
  const auto index = to_size(work.parameter);
  OneGradient gradient(runtime, model_.parameters()[index].shape);
  WeightGradientQueue queue;
  queue.push(std::move(work));
  queue.run({runtime, gradient});
  const double times = shared_.slices > 1 ? static_cast<double>(shared_.microbatches) : 1.0;
  const std::vector<double> values = values_of(gradient.gradient(0));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double term = factor * values[i];
    round(index, i, term, times);
    terms_[index][i] += term * term;
  }
}

void SumErrors::end_part(const ReferenceTensors& contribution) {
  ReferenceTensors& of_rank = of_ranks_[to_size(num_parts_++ % shared_.ranks)];
  for (std::size_t i = 0; i < contribution.size(); ++i) {
    for (std::size_t j = 0; j < contribution[i].size(); ++j) {
      of_rank[i][j] += contribution[i][j];
      round(i, j, of_rank[i][j]);
      round(i, j, contribution[i][j]);  // The reference's own rounding.
    }
  }
}

SumErrors::Finished SumErrors::finish() {
  ReferenceTensors sum = zeros_of(model_);
  for (const ReferenceTensors& of_rank : of_ranks_) {
    for (std::size_t i = 0; i < sum.size(); ++i) {
      for (std::size_t j = 0; j < sum[i].size(); ++j) {
        sum[i][j] += of_rank[i][j];
        round(i, j, sum[i][j]);
      }
    }
  }
  const auto more_hops = static_cast<double>(shared_.shares - 1);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    for (std::size_t j = 0; j < sum[i].size(); ++j) {
      round(i, j, std::sqrt(sum[i][j] * sum[i][j] + terms_[i][j]), more_hops);
      round(i, j, sum[i][j], kLastRoundings);
      sum[i][j] = most_of_errors(all_[i][j], squares_[i][j]);
    }
  }
  return {std::move(sum), std::move(variances_)};
}

}  // namespace shardsim
