#include "strategies/model/router.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "strategies/model/activation.hpp"
#include "strategies/model/expert_choice.hpp"
#include "strategies/model/linear.hpp"

namespace shardsim {

namespace {

// Softmax of some values, the largest taken out so that exp cannot overflow.
std::vector<double> softmax(const std::vector<double>& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> result;
  double sum = 0.0;
  for (const double logit : logits) {
    result.push_back(std::exp(logit - largest));
    sum += result.back();
  }
  for (double& value : result) value /= sum;
  return result;
}

std::vector<double> scores_of(RouterScore score, const std::vector<double>& logits) {
  if (score == RouterScore::softmax) return softmax(logits);
  std::vector<double> scores;
  for (const double logit : logits) scores.push_back(sigmoid(logit));
  return scores;
}

// DeepSeek-V3's code adds it to a sum of sigmoids, all of which may be 0.
constexpr double kLeastSum = 1e-20;

// The weights of `chosen`. Softmax over all, divided by its sum over the chosen, is the softmax of
// the chosen logits.
std::vector<double> weights_of(const RouterOptions& options, const std::vector<double>& logits,
                               const std::vector<double>& scores, const std::vector<int>& chosen) {
  const bool is_softmax = options.score == RouterScore::softmax;
  std::vector<double> weights;
  for (const int expert : chosen) {
    const auto i = to_size(expert);
    weights.push_back(is_softmax && options.normalised ? logits[i] : scores[i]);
  }
  if (options.normalised && is_softmax) {
    weights = softmax(weights);
  } else if (options.normalised) {
    const double sum = std::accumulate(weights.begin(), weights.end(), kLeastSum);
    for (double& weight : weights) weight /= sum;
  }
  for (double& weight : weights) weight *= options.scaling_factor;
  return weights;
}

// Numbers that experts are chosen by. Megatron-Core, too, compares logits before a softmax over the
// chosen.
std::vector<double> compared(const RouterOptions& options, const std::vector<double>& logits,
                             const std::vector<double>& scores, const Tensor& choice_bias) {
  const bool is_plain = options.normalised || !options.has_groups();
  if (options.score == RouterScore::softmax && !choice_bias.defined() && is_plain) return logits;
  if (!choice_bias.defined()) return scores;
  std::vector<double> sums = scores;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i] += choice_bias.get(static_cast<std::int64_t>(i));
  }
  return sums;
}

// x W^T + b in the dtype of statistics, whatever that of x and W is.
Tensor logits_of(Runtime& runtime, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const std::int64_t rows = num_rows(x);
  const std::int64_t h = last_dim(x);
  const std::int64_t experts = weight.shape()[0];
  require_size("router", "size of x's rows", h, weight.shape()[1]);
  Tensor logits = new_activation(runtime, Shape{rows, experts}, statistics_dtype(x.dtype()));
  std::int64_t bytes = x.num_bytes() + weight.num_bytes() + logits.num_bytes();
  if (bias.defined()) bytes += bias.num_bytes();
  runtime.compute(matmul_op("router", weight.dtype(), rows, experts, h, bytes), [&] {
    const std::vector<double> in = values_of(x);
    const std::vector<double> w = values_of(weight);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t expert = 0; expert < experts; ++expert) {
        double sum = 0.0;
        for (std::int64_t i = 0; i < h; ++i) {
          sum += in[to_size(row * h + i)] * w[to_size(expert * h + i)];
        }
        if (bias.defined()) sum += bias.get(expert);
        logits.set(row * experts + expert, sum);
      }
    }
  });
  return logits;
}

std::vector<double> values_of_row(const Tensor& tensor, std::int64_t row) {
  const std::int64_t width = last_dim(tensor);
  std::vector<double> values(to_size(width));
  for (std::int64_t i = 0; i < width; ++i) values[to_size(i)] = tensor.get(row * width + i);
  return values;
}

// d (lse z)^2 / dz = 2 (lse z) softmax(z).
Tensor slope_of_z_loss(Runtime& runtime, const Tensor& logits) {
  Tensor slope = new_activation(runtime, logits.shape(), logits.dtype());
  const std::int64_t bytes = logits.num_bytes() + slope.num_bytes();
  runtime.compute(memory_op("router_z_loss", logits.dtype(), bytes), [&] {
    const std::int64_t experts = last_dim(logits);
    for (std::int64_t row = 0; row < num_rows(logits); ++row) {
      const std::vector<double> z = values_of_row(logits, row);
      const double largest = *std::max_element(z.begin(), z.end());
      double sum = 0.0;
      for (const double logit : z) sum += std::exp(logit - largest);
      const double log_sum_exp = largest + std::log(sum);
      for (std::int64_t i = 0; i < experts; ++i) {
        slope.set(row * experts + i, 2.0 * log_sum_exp * std::exp(z[to_size(i)] - log_sum_exp));
      }
    }
  });
  return slope;
}

double weighted_sum(const std::vector<double>& values, const std::vector<double>& weights) {
  return std::inner_product(values.begin(), values.end(), weights.begin(), 0.0);
}

// gradient += that of the logits, from that of the scores.
void add_through_scores(RouterScore score, const std::vector<double>& scores,
                        const std::vector<double>& d, std::vector<double>& gradient) {
  const bool is_softmax = score == RouterScore::softmax;
  const double mean = is_softmax ? weighted_sum(d, scores) : 0.0;
  for (std::size_t i = 0; i < d.size(); ++i) {
    gradient[i] += is_softmax ? scores[i] * (d[i] - mean) : d[i] * scores[i] * (1.0 - scores[i]);
  }
}

// One token on its way back.
class RouterRow {
 public:
  RouterRow(const RouterOutput& routed, const RouterOptions& options, std::int64_t row)
      : routed_(routed),
        options_(options),
        k_(last_dim(routed.chosen)),
        row_(row),
        scores_(values_of_row(routed.scores, row)),
        gates_(values_of_row(routed.gates, row)),
        gradient_(scores_.size(), 0.0) {}

  // Both softmaxes have dlogit_i = p_i (d_i - sum_m d_m p_m), each over its own experts.
  void add_gates(const Tensor& gate_gradient) {
    const std::vector<double> d = values_of_row(gate_gradient, row_);
    if (options_.score == RouterScore::softmax && options_.normalised) {
      const double mean = weighted_sum(d, gates_) / options_.scaling_factor;
      for (std::int64_t slot = 0; slot < k_; ++slot) {
        gradient_[expert_of(slot)] += gates_[to_size(slot)] * (d[to_size(slot)] - mean);
      }
      return;
    }
    double mean = 0.0;
    double sum = 1.0;
    if (options_.normalised) {
      mean = weighted_sum(d, gates_);
      sum = kLeastSum;
      for (std::int64_t slot = 0; slot < k_; ++slot) sum += scores_[expert_of(slot)];
    }
    std::vector<double> of_scores(scores_.size(), 0.0);
    for (std::int64_t slot = 0; slot < k_; ++slot) {
      of_scores[expert_of(slot)] = (options_.scaling_factor * d[to_size(slot)] - mean) / sum;
    }
    add_through_scores(options_.score, scores_, of_scores, gradient_);
  }

  void add_losses(const RouterLosses& losses) {
    const auto experts = static_cast<std::int64_t>(scores_.size());
    if (losses.balance) {
      std::vector<double> slopes;
      for (std::int64_t i = 0; i < experts; ++i) slopes.push_back(losses.balance(row_, i));
      if (options_.score == RouterScore::sigmoid) {
        const double sum = std::accumulate(scores_.begin(), scores_.end(), kLeastSum);
        const double mean = weighted_sum(slopes, scores_) / sum;
        for (double& slope : slopes) slope = (slope - mean) / sum;
      }
      add_through_scores(options_.score, scores_, slopes, gradient_);
    }
    if (!routed_.z_slope.defined()) return;
    for (std::int64_t i = 0; i < experts; ++i) {
      gradient_[to_size(i)] += losses.z_factor * routed_.z_slope.get(row_ * experts + i);
    }
  }

  [[nodiscard]] const std::vector<double>& gradient() const { return gradient_; }

 private:
  [[nodiscard]] std::size_t expert_of(std::int64_t slot) const {
    return static_cast<std::size_t>(routed_.chosen.get(row_ * k_ + slot));
  }

  const RouterOutput& routed_;
  const RouterOptions& options_;
  std::int64_t k_;
  std::int64_t row_;
  std::vector<double> scores_;
  std::vector<double> gates_;
  std::vector<double> gradient_;  // With respect to the logits.
};

}  // namespace

RouterOutput router_forward(Runtime& runtime, const Tensor& x, const RouterWeights& weights,
                            const RouterRule& rule, const DeclaredChoice& declared) {
  const std::int64_t k = rule.experts_per_token;
  const RouterOptions& options = rule.options;
  RouterOutput out;
  out.scores = logits_of(runtime, x, weights.weight, weights.logit_bias);
  if (options.has_z_loss()) out.z_slope = slope_of_z_loss(runtime, out.scores);
  const std::int64_t rows = num_rows(out.scores);
  const std::int64_t experts = last_dim(out.scores);
  out.chosen = new_activation(runtime, Shape{rows, k}, DType::int32);
  out.gates = new_activation(runtime, Shape{rows, k}, out.scores.dtype());
  std::int64_t bytes = 2 * out.scores.num_bytes() + out.chosen.num_bytes() + out.gates.num_bytes();
  if (weights.choice_bias.defined()) bytes += weights.choice_bias.num_bytes();
  runtime.compute(memory_op("router_top_k", out.scores.dtype(), bytes), [&] {
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::vector<double> logits = values_of_row(out.scores, row);
      const std::vector<double> scores = scores_of(options.score, logits);
      std::vector<int> chosen;
      if (declared) {
        for (std::int64_t slot = 0; slot < k; ++slot) chosen.push_back(declared(row, slot));
      } else {
        chosen = choose_experts(options, compared(options, logits, scores, weights.choice_bias), k);
      }
      const std::vector<double> gates = weights_of(options, logits, scores, chosen);
      for (std::int64_t slot = 0; slot < k; ++slot) {
        out.chosen.set(row * k + slot, chosen[to_size(slot)]);
        out.gates.set(row * k + slot, gates[to_size(slot)]);
      }
      for (std::int64_t i = 0; i < experts; ++i) {
        out.scores.set(row * experts + i, scores[to_size(i)]);
      }
    }
  });
  return out;
}

Tensor router_backward(Runtime& runtime, const RouterOutput& routed, const RouterOptions& options,
                       const Tensor& gate_gradient, const RouterLosses& losses) {
  const std::int64_t rows = num_rows(routed.scores);
  const std::int64_t experts = last_dim(routed.scores);
  const std::int64_t k = last_dim(routed.chosen);
  require_size("router backward", "number of gradients", gate_gradient.numel(), rows * k);
  Tensor logits = new_activation(runtime, routed.scores.shape(), routed.scores.dtype());
  std::int64_t bytes = routed.scores.num_bytes() + logits.num_bytes() + routed.chosen.num_bytes() +
                       2 * routed.gates.num_bytes();
  if (routed.z_slope.defined()) bytes += routed.z_slope.num_bytes();
  runtime.compute(memory_op("router_top_k_backward", logits.dtype(), bytes), [&] {
    for (std::int64_t row = 0; row < rows; ++row) {
      RouterRow token(routed, options, row);
      token.add_gates(gate_gradient);
      token.add_losses(losses);
      for (std::int64_t i = 0; i < experts; ++i) {
        logits.set(row * experts + i, token.gradient()[to_size(i)]);
      }
    }
  });
  return logits;
}

Tensor count_chosen(Runtime& runtime, const Tensor& chosen, std::int64_t groups,
                    std::int64_t num_experts, DType dtype) {
  Tensor counts = new_activation(runtime, Shape{groups, num_experts}, dtype);
  const std::int64_t bytes = chosen.num_bytes() + counts.num_bytes();
  runtime.compute(memory_op("count_chosen", chosen.dtype(), bytes), [&] {
    const std::int64_t per_group = chosen.numel() / groups;
    for (std::int64_t i = 0; i < chosen.numel(); ++i) {
      const std::int64_t at =
          i / per_group * num_experts + static_cast<std::int64_t>(chosen.get(i));
      counts.set(at, counts.get(at) + 1.0);
    }
  });
  return counts;
}

}  // namespace shardsim
