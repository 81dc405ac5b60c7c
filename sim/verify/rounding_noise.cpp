#include "sim/verify/rounding_noise.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "backends/stochastic_rounding.hpp"

namespace shardsim {

namespace {

constexpr int kNumDraws = 16;

// One rounding of a rank and one of the reference, in units of drawn ones.
double share_of_drawn() { return std::sqrt(2.0 / StochasticRounding::kVarianceFromNearest); }

}  // namespace

double largest(const std::vector<double>& values) {
  double most = 0.0;
  for (const double value : values) most = std::max(most, std::fabs(value));
  return most;
}

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
  const double floor = kNoiseFloor * largest(exact);
  std::vector<double> noise;
  for (std::size_t i = 0; i < rounded.size(); ++i) {
    double difference = 0.0;
    for (std::size_t j = 0; j < rounded[i].size(); ++j) {
      difference = worse(std::fabs(rounded[i][j] - exact[i][j]), difference);
    }
    noise.push_back(relative(difference, std::max(largest(exact[i]), floor)));
  }
  return noise;
}

// Two runs differ by the roundings of both. Activations of the ranks are other numbers, so the two
// are independent. If ranks share a sum, a draw has their additional roundings.
void ActivationNoise::draw(ReferenceTraining& reference, std::size_t num_parameters) {
  clear(num_parameters);
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
  return share_of_drawn() * largest_[parameter].bound();
}

double ActivationNoise::of_mean_square(std::size_t parameter) const {
  return share_of_drawn() * mean_squares_[parameter].bound();
}

double ActivationNoise::of_loss() const { return share_of_drawn() * loss_.bound(); }

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
  return unit_roundoff(sync.master_dtype);
}

}  // namespace shardsim
