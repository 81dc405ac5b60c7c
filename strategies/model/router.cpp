#include "strategies/model/router.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "strategies/model/close_calls.hpp"
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

std::vector<int> largest(const std::vector<double>& logits, std::int64_t count) {
  std::vector<int> experts(logits.size());
  std::iota(experts.begin(), experts.end(), 0);
  std::stable_sort(experts.begin(), experts.end(),
                   [&](int a, int b) { return logits[to_size(a)] > logits[to_size(b)]; });
  if (CloseCalls* const calls = CloseCalls::active())
    experts = calls->rank(logits, experts, to_size(count));
  experts.resize(to_size(count));
  return experts;
}

// x W^T in the dtype of statistics, whatever that of x and W is.
Tensor logits_of(Runtime& runtime, const Tensor& x, const Tensor& weight) {
  const std::int64_t rows = num_rows(x);
  const std::int64_t h = last_dim(x);
  const std::int64_t experts = weight.shape()[0];
  require_size("router", "size of x's rows", h, weight.shape()[1]);
  Tensor logits = new_activation(runtime, Shape{rows, experts}, statistics_dtype(x.dtype()));
  const std::int64_t bytes = x.num_bytes() + weight.num_bytes() + logits.num_bytes();
  runtime.compute(matmul_op("router", weight.dtype(), rows, experts, h, bytes), [&] {
    const std::vector<double> in = values_of(x);
    const std::vector<double> w = values_of(weight);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t expert = 0; expert < experts; ++expert) {
        double sum = 0.0;
        for (std::int64_t i = 0; i < h; ++i) {
          sum += in[to_size(row * h + i)] * w[to_size(expert * h + i)];
        }
        logits.set(row * experts + expert, sum);
      }
    }
  });
  return logits;
}

}  // namespace

RouterOutput router_forward(Runtime& runtime, const Tensor& x, const Tensor& weight,
                            std::int64_t experts_per_token, const DeclaredChoice& declared) {
  const std::int64_t k = experts_per_token;
  RouterOutput out;
  out.probabilities = logits_of(runtime, x, weight);
  const std::int64_t rows = num_rows(out.probabilities);
  const std::int64_t experts = last_dim(out.probabilities);
  out.chosen = new_activation(runtime, Shape{rows, k}, DType::int32);
  out.gates = new_activation(runtime, Shape{rows, k}, out.probabilities.dtype());
  const std::int64_t bytes =
      2 * out.probabilities.num_bytes() + out.chosen.num_bytes() + out.gates.num_bytes();
  runtime.compute(memory_op("router_top_k", out.probabilities.dtype(), bytes), [&] {
    std::vector<double> logits(to_size(experts));
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < experts; ++i) {
        logits[to_size(i)] = out.probabilities.get(row * experts + i);
      }
      std::vector<int> chosen;
      if (declared) {
        for (std::int64_t slot = 0; slot < k; ++slot) chosen.push_back(declared(row, slot));
      } else {
        chosen = largest(logits, k);
      }
      std::vector<double> of_chosen;
      for (const int expert : chosen) of_chosen.push_back(logits[to_size(expert)]);
      const std::vector<double> gates = softmax(of_chosen);
      for (std::int64_t slot = 0; slot < k; ++slot) {
        out.chosen.set(row * k + slot, chosen[to_size(slot)]);
        out.gates.set(row * k + slot, gates[to_size(slot)]);
      }
      const std::vector<double> probabilities = softmax(logits);
      for (std::int64_t i = 0; i < experts; ++i) {
        out.probabilities.set(row * experts + i, probabilities[to_size(i)]);
      }
    }
  });
  return out;
}

// Both softmaxes have dlogit_i = p_i (d_i - sum_m d_m p_m), each over its own experts.
Tensor router_backward(Runtime& runtime, const RouterOutput& routed, const Tensor& gate_gradient,
                       const BalanceSlope& balance) {
  const std::int64_t rows = num_rows(routed.probabilities);
  const std::int64_t experts = last_dim(routed.probabilities);
  const std::int64_t k = last_dim(routed.chosen);
  require_size("router backward", "number of gradients", gate_gradient.numel(), rows * k);
  Tensor logits =
      new_activation(runtime, routed.probabilities.shape(), routed.probabilities.dtype());
  const std::int64_t bytes = routed.probabilities.num_bytes() + logits.num_bytes() +
                             routed.chosen.num_bytes() + 2 * routed.gates.num_bytes();
  runtime.compute(memory_op("router_top_k_backward", logits.dtype(), bytes), [&] {
    std::vector<double> gradient(to_size(experts));
    for (std::int64_t row = 0; row < rows; ++row) {
      std::fill(gradient.begin(), gradient.end(), 0.0);
      double mean = 0.0;
      for (std::int64_t i = row * k; i < (row + 1) * k; ++i) {
        mean += gate_gradient.get(i) * routed.gates.get(i);
      }
      for (std::int64_t i = row * k; i < (row + 1) * k; ++i) {
        gradient[static_cast<std::size_t>(routed.chosen.get(i))] +=
            routed.gates.get(i) * (gate_gradient.get(i) - mean);
      }
      if (balance) {
        double mean_slope = 0.0;
        for (std::int64_t i = 0; i < experts; ++i) {
          mean_slope += balance(row, i) * routed.probabilities.get(row * experts + i);
        }
        for (std::int64_t i = 0; i < experts; ++i) {
          gradient[to_size(i)] +=
              routed.probabilities.get(row * experts + i) * (balance(row, i) - mean_slope);
        }
      }
      for (std::int64_t i = 0; i < experts; ++i) {
        logits.set(row * experts + i, gradient[to_size(i)]);
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
