#include "strategies/model/branch.hpp"

#include "strategies/sharding/tensor_parallel.hpp"

namespace shardsim {

void drop_all(std::span<Tensor> kept) {
  for (Tensor& each : kept) each = {};
}

const Tensor& BranchInput::value() {
  if (norm_.norm == nullptr) return norm_.of;
  if (!norm_.y.defined()) {
    NormOutput made = norm_.norm->forward(pass_, norm_.first, norm_.of);
    norm_.y = std::move(made.y);
    norm_.statistics = std::move(made.statistics);
  }
  return norm_.y;
}

Tensor BranchInput::entering() {
  if (pass_.low == nullptr) return value();
  Tensor rows = linear_input(pass_, value(), norm_.quantized, place());
  if (!reads_value_) norm_.y = {};
  return rows;
}

void BranchInput::drop_recomputed() {
  if (!is_dropped_) return;
  norm_.y = {};
  norm_.statistics = {};
  norm_.quantized = {};
}

const Tensor& BranchInput::columns() {
  if (pass_.low == nullptr) return value();
  if (!norm_.quantized.defined()) {
    norm_.quantized = value();
    make_columns(pass_, norm_.quantized, place());
  }
  return norm_.quantized;
}

Tensor BranchInput::take() {
  static_cast<void>(columns());
  Tensor& whole = norm_.norm == nullptr ? norm_.of : norm_.y;
  if (pass_.low == nullptr) return std::move(whole);
  whole = {};
  return std::move(norm_.quantized);
}

void BranchInput::drop() {
  (norm_.norm == nullptr ? norm_.of : norm_.y) = {};
  norm_.quantized = {};
}

Tensor RegionBranch::enter(const Pass& pass, BranchInput& x, std::span<Tensor> /*kept*/) const {
  if (reads_by_linear()) return enter_region_by_shard(pass, x.entering(), columns());
  return enter_region(pass, x.entering(), columns());
}

Tensor RegionBranch::leave(const Pass& pass, std::span<ColumnLinear> readers, BranchInput& x,
                           std::span<Tensor> /*kept*/) const {
  return backward_columns(pass, readers, x.take(), columns());
}

Tensor RegionBranch::forward(const Pass& pass, BranchInput& x, std::span<Tensor> kept) const {
  Tensor y = run_forward(pass, x, kept);
  finish_row(pass, kept);
  if (runs_again()) {
    drop_all(kept);
    x.drop_quantized();
  }
  return y;
}

void RegionBranch::refill(const Pass& pass, BranchInput& x, std::span<Tensor> kept) const {
  if (runs_again()) return;  // Backward does all of it.
  static_cast<void>(forward_to_row(pass, enter(pass, x, kept), x, kept));
  // The row-parallel layer would have.
  if (pass.parallel.tensor != nullptr) pass.parallel.tensor->end_region(row(pass).name);
  finish_row(pass, kept);
}

Tensor RegionBranch::forward_to_row(const Pass& pass, Tensor entered, BranchInput& x,
                                    std::span<Tensor> kept) const {
  Tensor z = forward_inside(pass, std::move(entered), x, kept);
  return pass.low == nullptr
             ? z
             : linear_input(pass, std::move(z), kept.back(), {row(pass).k, Held::channels});
}

void RegionBranch::finish_row(const Pass& pass, std::span<Tensor> kept) const {
  drop_row_input(kept, pass.low != nullptr);
  if (recomputes_row_input()) kept.back() = {};
}

Tensor RegionBranch::take_row_input(const Pass& pass, std::span<Tensor> kept) const {
  if (kept.back().defined()) return std::move(kept.back());
  Tensor z = row_input(pass, kept);
  make_columns(pass, z, {row(pass).k, Held::channels});
  return z;
}

Tensor RegionBranch::run_forward(const Pass& pass, BranchInput& x, std::span<Tensor> kept) const {
  const Tensor z = forward_to_row(pass, enter(pass, x, kept), x, kept);
  const Row out = row(pass);
  Tensor y = apply_row_linear(pass, out.k, out.has_bias, z, out.name);  // (b, s, h)
  if (out.scale != 1.0) scale_in_place(pass.runtime, y, out.scale);
  return y;
}

Tensor RegionBranch::backward(const Pass& pass, Tensor dy, BranchInput& x,
                              std::span<Tensor> kept) const {
  if (runs_again()) {
    x.keep();
    static_cast<void>(run_forward(pass, x, kept));
    if (pass.low != nullptr) drop_row_input(kept, /*is_quantized=*/true);
  }
  const Row out = row(pass);
  if (out.scale != 1.0) dy = scaled(pass.runtime, dy, out.scale);  // The stream may have it, too.
  Tensor d =
      backward_row_linear(pass, out.k, out.has_bias, dy, take_row_input(pass, kept), out.name);
  dy = {};
  remake(pass, x, kept);
  ColumnLinears readers = backward_inside(pass, std::move(d), kept);
  d = leave(pass, readers.all(), x, kept);  // (b, s, h)
  drop_all(kept);
  return d;
}

}  // namespace shardsim
