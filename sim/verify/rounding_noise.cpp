#include "sim/verify/rounding_noise.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "backends/stochastic_rounding.hpp"

#include "strategies/model/layer.hpp"

namespace shardsim {

namespace {

constexpr int kNumDraws = 16;

// One rounding of a rank and one of the reference, in units of drawn ones.
double share_of_drawn() { return std::sqrt(2.0 / StochasticRounding::kVarianceFromNearest); }

// An error ahead of a cast to few bits moves an element to the next number with a probability in
// proportion to the error, and then by the same step: mean squares are in proportion to errors, and
// not to their squares.
double share_beside_casts() { return std::sqrt(share_of_drawn()); }

// --- Sums --------------------------------------------------------------------------------------

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

// The same work on the numbers that quantized operands stand for.
WeightGradient in_numbers(Runtime& runtime, const WeightGradient& work, const ParameterSpec& spec) {
  WeightGradient plain = work;
  const int inputs = spec.shape.rank() - 1;
  plain.dy =
      numbers_of(runtime, work.low.recipe, Operand::gradient, work.dy, spec.shape[inputs - 1]);
  plain.x = numbers_of(runtime, work.low.recipe, Operand::value, work.x, spec.shape[inputs]);
  plain.low = {};
  return plain;
}

Tensor squares_of(Runtime& runtime, const Tensor& tensor) {
  const Tensor squares = runtime.allocate(MemoryCategory::activations, tensor.shape(), DType::fp64);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    squares.set(i, tensor.get(i) * tensor.get(i));
  }
  return squares;
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

double largest(const ReferenceTensors& tensors) {
  double most = 0.0;
  for (const std::vector<double>& values : tensors) most = std::max(most, largest(values));
  return most;
}

double worse(double a, double b) { return a > b || std::isnan(a) ? a : b; }

double relative(double difference, double of) {
  if (difference == 0.0) return 0.0;
  return of > 0.0 ? difference / of : difference / std::numeric_limits<double>::min();
}

std::vector<double> noise_of(const ReferenceTensors& rounded, const ReferenceTensors& exact) {
  const double of_kind = largest(exact);
  std::vector<double> noise;
  for (std::size_t i = 0; i < rounded.size(); ++i) {
    double difference = 0.0;
    for (std::size_t j = 0; j < rounded[i].size(); ++j) {
      difference = worse(std::fabs(rounded[i][j] - exact[i][j]), difference);
    }
    noise.push_back(relative(difference, scale_of(exact[i], of_kind)));
  }
  return noise;
}

// Two runs differ by the roundings of both. Activations of the ranks are other numbers, so the two
// are independent. If ranks share a sum, a draw has their additional roundings.
void ActivationNoise::draw(ReferenceTraining& reference, std::size_t num_parameters) {
  clear(num_parameters);
  const Model& model = reference.model();
  const bool has_casts = quantizes(model) || model.casts_activations();
  share_ = has_casts ? share_beside_casts() : share_of_drawn();
  const ReferenceStep plain = reference.draw_gradients({});
  const ReferenceTensors& wanted = plain.kinds.at("gradient");
  for (int number = 0; number < kNumDraws; ++number) {
    const ReferenceStep drawn = reference.draw_gradients(number);
    const ReferenceTensors& gradients = drawn.kinds.at("gradient");
    for (std::size_t i = 0; i < num_parameters; ++i) {
      largest_[i].add(largest_error(gradients[i], wanted[i]));
      mean_squares_[i].add(root_mean_square_error(gradients[i], wanted[i]));
    }
    loss_.add(largest_error({drawn.loss}, {plain.loss}));
  }
}

void ActivationNoise::clear(std::size_t num_parameters) {
  largest_.assign(num_parameters, DrawnErrors());
  mean_squares_ = largest_;
  loss_ = DrawnErrors();
}

double ActivationNoise::of_element(std::size_t parameter) const {
  return share_ * largest_[parameter].bound();
}

double ActivationNoise::of_mean_square(std::size_t parameter) const {
  return share_ * mean_squares_[parameter].bound();
}

double ActivationNoise::of_loss() const { return share_ * loss_.bound(); }

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double unit_roundoff_of(const SyncPlan& sync, std::string_view kind) {
  if (kind == "parameter") return unit_roundoff(sync.weight_dtype);
  if (kind == "gradient") {
    return std::max(unit_roundoff(sync.weight_dtype), unit_roundoff(sync.gradient_dtype));
  }
  if (kind == "master") return unit_roundoff(sync.master_dtype);
  // Another optimizer may have a state of this name beside Muon.
  const auto others = sync.optimizer->state_names();
  const bool of_muon =
      sync.muon && kind == kMuonState && std::ranges::find(others, kind) == others.end();
  return std::max(unit_roundoff(sync.master_dtype), unit_roundoff(sync.state(of_muon)));
}

// --- Sums --------------------------------------------------------------------------------------

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
  if (work.low.recipe != ScalingRecipe::none) {
    return add(runtime, in_numbers(runtime, work, model_.parameters()[to_size(work.parameter)]));
  }
  const bool is_of_experts = work.kind == Kind::grouped || work.kind == Kind::grouped_bias;
  if (is_of_experts) return add_grouped(runtime, work);
  if (work.kind == Kind::sum) return add_sum(runtime, work);
  const std::int64_t slices = shared_.slices;
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
    add_terms(work.parameter, gradient_of(runtime, std::move(part)));
  }
}

// An expert's rows come from any of the slices. Sums of random rows have the squares of all rows,
// together, besides their shares of the whole sum.
void SumErrors::add_grouped(Runtime& runtime, const WeightGradient& work) {
  std::vector<double> terms = gradient_of(runtime, work);
  const auto slices = static_cast<double>(shared_.slices);
  if (shared_.slices > 1) {
    WeightGradient of_squares = work;
    of_squares.dy = squares_of(runtime, work.dy);
    if (work.x.defined()) of_squares.x = squares_of(runtime, work.x);
    const std::vector<double> squares = gradient_of(runtime, std::move(of_squares));
    for (std::size_t i = 0; i < terms.size(); ++i) {
      terms[i] = std::sqrt(squares[i] + slices * terms[i] * terms[i]);
    }
  }
  add_terms(work.parameter, terms);
}

// A layer has added up all its rows. If they are random, the squares of a slice's sums are, slice
// by slice together, on average those of the whole sum: over the parameter's elements, since one
// that is small may be the rest of large ones.
void SumErrors::add_sum(Runtime& runtime, const WeightGradient& work) {
  std::vector<double> terms = gradient_of(runtime, work);
  const auto slices = static_cast<double>(shared_.slices);
  if (shared_.slices > 1) {
    double mean_square = 0.0;
    for (const double term : terms) mean_square += term * term / static_cast<double>(terms.size());
    for (double& term : terms) term = std::sqrt(mean_square + slices * term * term);
  }
  add_terms(work.parameter, terms);
}

std::vector<double> SumErrors::gradient_of(Runtime& runtime, WeightGradient work) const {
  OneGradient gradient(runtime, model_.parameters()[to_size(work.parameter)].shape);
  WeightGradientQueue queue;
  queue.push(std::move(work));
  queue.run({runtime, gradient});
  return values_of(gradient.gradient(0));
}

// A slice is rounded when it is added, and again in the sum of each microbatch that follows.
void SumErrors::add_terms(int parameter, const std::vector<double>& terms) {
  const auto index = to_size(parameter);
  const double times = shared_.slices > 1 ? static_cast<double>(shared_.microbatches) : 1.0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    round(index, i, terms[i], times);
    terms_[index][i] += terms[i] * terms[i];
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
