#include "strategies/model/branch.hpp"

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

void BranchInput::drop_recomputed() {
  if (!is_dropped_) return;
  norm_.y = {};
  norm_.statistics = {};
}

Tensor RegionBranch::enter(const Pass& pass, BranchInput& x, std::span<Tensor> /*kept*/) const {
  return enter_region(pass, x.value(), columns());
}

Tensor RegionBranch::leave(const Pass& pass, std::span<ColumnLinear> readers, BranchInput& x,
                           std::span<Tensor> /*kept*/) const {
  return backward_columns(pass, readers, x.take(), columns());
}

Tensor RegionBranch::forward(const Pass& pass, BranchInput& x, std::span<Tensor> kept) const {
  Tensor y = run_forward(pass, x, kept);
  drop_row_input(kept);
  if (runs_again()) drop_all(kept);
  return y;
}

Tensor RegionBranch::run_forward(const Pass& pass, BranchInput& x, std::span<Tensor> kept) const {
  const Tensor z = forward_inside(pass, enter(pass, x, kept), x, kept);
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
  }
  const Row out = row(pass);
  if (out.scale != 1.0) dy = scaled(pass.runtime, dy, out.scale);  // The stream may have it, too.
  Tensor d = backward_row_linear(pass, out.k, out.has_bias, dy, row_input(pass, kept), out.name);
  dy = {};
  remake(pass, x, kept);
  ColumnLinears readers = backward_inside(pass, std::move(d), kept);
  d = leave(pass, readers.all(), x, kept);  // (b, s, h)
  drop_all(kept);
  return d;
}

}  // namespace shardsim
