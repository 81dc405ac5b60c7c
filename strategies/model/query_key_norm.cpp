#include "strategies/model/query_key_norm.hpp"

#include <array>
#include <utility>

#include "strategies/sharding/tensor_parallel.hpp"

namespace shardsim {

QueryKeyNorms::QueryKeyNorms(const ModelOptions& options)
    : kind_(options.query_key_norm),
      tensor_parallel_(options.tensor_parallel),
      head_size_(options.head_size()),
      q_width_(options.num_attention_heads * head_size_),
      k_width_(options.num_query_groups * head_size_),
      groups_(options.num_query_groups),
      k_summed_(k_width_ * options.group_copies(options.tensor_parallel)),
      epsilon_(options.norm_epsilon),
      form_{.is_zero_centred = options.norm_zero_centred} {}

void QueryKeyNorms::add_parameters(ParameterTable& table, const std::string& name) const {
  const Init init{form_.is_zero_centred ? Init::Kind::zeros : Init::Kind::ones, 0.0};
  const auto add = [&](const char* letter, std::int64_t width, std::int64_t heads) {
    const std::string full = name + "." + letter + "_norm";
    if (kind_ == QueryKeyNorm::whole) {
      table.add_for_groups(full, {width}, init, heads, tensor_parallel_);
    } else {
      table.add_for_heads(full, {head_size_}, init, tensor_parallel_);
    }
  };
  add("q", q_width_, q_width_ / head_size_);
  add("k", k_width_, groups_);
}

SplitRows QueryKeyNorms::rows_of_norm(const Tensor& x, const Tensor& weight,
                                      std::int64_t whole) const {
  return {x, weight, whole, form_.is_zero_centred};
}

QueryKeyKept QueryKeyNorms::forward(const Pass& pass, int first, QueriesAndKeys& x) const {
  QueryKeyKept kept;
  if (come_last()) {
    kept.q_statistics = unit_norm_forward(pass.runtime, x.q, head_size_, epsilon_);
    kept.k_statistics = unit_norm_forward(pass.runtime, x.k, head_size_, epsilon_);
    return kept;
  }
  if (is_split() && pass.parallel.tensor != nullptr) {
    const Tensor q_weight = pass.weight(first);
    const Tensor k_weight = pass.weight(first + 1);
    SplitNormOutput norm = split_norm_forward(
        pass.runtime, pass.parallel.tensor->group(),
        {{rows_of_norm(x.q, q_weight, q_width_), rows_of_norm(x.k, k_weight, k_summed_)}},
        epsilon_);
    kept.q = std::exchange(x.q, std::move(norm.y[0]));
    kept.k = std::exchange(x.k, std::move(norm.y[1]));
    kept.q_statistics = std::move(norm.statistics);
    return kept;
  }
  NormOutput q = apply_norm(pass, first, form_, x.q, epsilon_);
  kept.q = std::exchange(x.q, std::move(q.y));
  kept.q_statistics = std::move(q.statistics);
  NormOutput k = apply_norm(pass, first + 1, form_, x.k, epsilon_);
  kept.k = std::exchange(x.k, std::move(k.y));
  kept.k_statistics = std::move(k.statistics);
  return kept;
}

void QueryKeyNorms::backward(const Pass& pass, int first, QueryKeyKept& kept,
                             const QueriesAndKeys& y, QueriesAndKeys& gradients) const {
  if (come_last()) {
    unit_norm_backward(pass.runtime, y.k, kept.k_statistics, gradients.k);
    unit_norm_backward(pass.runtime, y.q, kept.q_statistics, gradients.q);
    return;
  }
  if (is_split() && pass.parallel.tensor != nullptr) {
    return split_backward(pass, first, kept, gradients);
  }
  gradients.k = finish_norm(pass, first + 1, form_, gradients.k, kept.k, kept.k_statistics);
  kept.k = kept.k_statistics = {};
  gradients.q = finish_norm(pass, first, form_, gradients.q, kept.q, kept.q_statistics);
  kept = {};
}

void QueryKeyNorms::split_backward(const Pass& pass, int first, const QueryKeyKept& kept,
                                   QueriesAndKeys& gradients) const {
  std::array<Tensor, 2> sums;
  {
    const Tensor q_weight = pass.weight(first);
    const Tensor k_weight = pass.weight(first + 1);
    sums = {gradient_of_sum(pass, first, q_weight), gradient_of_sum(pass, first + 1, k_weight)};
    auto [dq, dk] = split_norm_backward(
        pass.runtime, pass.parallel.tensor->group(),
        {{rows_of_norm(kept.q, q_weight, q_width_), rows_of_norm(kept.k, k_weight, k_summed_)}},
        {gradients.q, gradients.k}, kept.q_statistics, sums);
    gradients.q = std::move(dq);
    gradients.k = std::move(dk);
  }
  finish_sum(pass, first + 1, std::move(sums[1]));
  finish_sum(pass, first, std::move(sums[0]));
}

}  // namespace shardsim
