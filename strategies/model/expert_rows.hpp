#pragma once

#include "strategies/model/layer.hpp"

// Rows on their way to experts and back. A pair is a token and one of its k slots, number
// token k + slot; `order` [R] int32 names the pair that each row is of, or kNoPair for a row that
// only fills up. `sizes` [E] int32: rows of each expert, which lie one after the other.
namespace shardsim {

inline constexpr std::int64_t kNoPair = -1;

/// x [..., h] -> rows [R, h]: each pair's token; zeros where there is no pair. With `gates` [n, k]
/// each row is multiplied by its pair's.
[[nodiscard]] Tensor permute_tokens(Runtime& runtime, const Tensor& x, const Tensor& order,
                                    std::int64_t experts_per_token, const Tensor& gates = {});
/// The gradient of x, in shape `shape`: for each token the sum over its rows.
[[nodiscard]] Tensor permute_tokens_backward(Runtime& runtime, const Tensor& rows_gradient,
                                             const Tensor& order, std::int64_t experts_per_token,
                                             const Shape& shape, const Tensor& gates = {});
/// The gradient of such gates [n, k], from x as forward read it.
[[nodiscard]] Tensor permute_tokens_backward_gates(Runtime& runtime, const Tensor& rows_gradient,
                                                   const Tensor& x, const Tensor& order,
                                                   const Tensor& gates);

/// rows [R, h], gates [n, k] -> y, in shape `shape`: for each token the sum of its rows, each times
/// its gate. A pair without a row counts as zeros.
[[nodiscard]] Tensor combine_rows(Runtime& runtime, const Tensor& rows, const Tensor& order,
                                  const Tensor& gates, const Shape& shape);
struct CombineGradient {
  Tensor rows;   ///< [R, h]
  Tensor gates;  ///< [n, k]
};
[[nodiscard]] CombineGradient combine_rows_backward(Runtime& runtime, const Tensor& dy,
                                                    const Tensor& rows, const Tensor& order,
                                                    const Tensor& gates);

/// The same without gates, which have been applied before.
[[nodiscard]] Tensor sum_rows(Runtime& runtime, const Tensor& rows, const Tensor& order,
                              std::int64_t experts_per_token, const Shape& shape);
[[nodiscard]] Tensor sum_rows_backward(Runtime& runtime, const Tensor& dy, const Tensor& order,
                                       std::int64_t experts_per_token);

/// The work of permute_tokens and sum_rows, for a kernel that does it beside other work: rows [R,
/// h] of x, and y = for each token the sum of its rows, each times its gate if there are `gates`.
void spread_rows(const Tensor& x, const Tensor& order, const Tensor& gates,
                 std::int64_t experts_per_token, const Tensor& rows);
void add_rows(const Tensor& rows, const Tensor& order, const Tensor& gates,
              std::int64_t experts_per_token, const Tensor& y);
/// spread_rows without gates, for elements of any type.
void copy_rows(const Tensor& x, const Tensor& order, std::int64_t experts_per_token,
               const Tensor& rows);

/// A linear layer per expert, in one operation: x [R, k], weight [E, n, k] -> y [R, n]. `bias`
/// [E, n] or undefined.
[[nodiscard]] Tensor grouped_forward(Runtime& runtime, const Tensor& x, const Tensor& weight,
                                     const Tensor& bias, const Tensor& sizes);
/// weight_gradient [E, n, k] += of each expert dy^T x.
void grouped_backward_weight(Runtime& runtime, const Tensor& dy, const Tensor& x,
                             const Tensor& sizes, const Tensor& weight_gradient);
/// bias_gradient [E, n] += of each expert the sum of its rows of dy [R, n].
void grouped_backward_bias(Runtime& runtime, const Tensor& dy, const Tensor& sizes,
                           const Tensor& bias_gradient);
/// dy [R, n] -> dx [R, k].
[[nodiscard]] Tensor grouped_backward_input(Runtime& runtime, const Tensor& dy,
                                            const Tensor& weight, const Tensor& sizes);

/// Rows [R, h] that lie source by source, and of each source expert by expert, to expert by expert
/// (`to_experts`), or back. `counts`: rows of each source and expert, source by source.
[[nodiscard]] Tensor regroup_rows(Runtime& runtime, const Tensor& rows,
                                  std::span<const std::int64_t> counts, std::int64_t num_sources,
                                  bool to_experts);

}  // namespace shardsim
