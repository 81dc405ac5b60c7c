#include "strategies/model/shared_region.hpp"

#include <algorithm>
#include <utility>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

// The same tensor where the factor is 1.
Tensor with_scale(const Pass& pass, double factor, const Tensor& x) {
  return factor == 1.0 ? x : scaled(pass.runtime, x, factor);
}

// The quantized gradient is that of all members, and one of them has another one.
void refuse_scaled_data(Runtime& runtime) {
  runtime.off_the_clock([] {
    throw UsageError("E0683",
                     "branches that share a region, one of them with a factor of its output, have "
                     "prices in low precision, but no data yet",
                     "use execution.tensors meta, or set the factor to 1");
  });
}

}  // namespace

SharedRegion::SharedRegion(const char* name, Members members, int block)
    : name_(name), members_(std::move(members)) {
  ParameterTable counted;
  counted.begin_unit(name);
  for (const auto& member : members_) {
    first_.push_back(static_cast<int>(counted.specs().size()));
    member->add_parameters(counted, name, block);
    kept_first_.push_back(num_kept_);
    num_kept_ += member->num_kept();
  }
}

bool SharedRegion::is_captured(const GraphModules& graphs) const {
  return std::ranges::all_of(members_, [&](const auto& m) { return m->is_captured(graphs); });
}

void SharedRegion::add_parameters(ParameterTable& table, const std::string& name, int block) const {
  for (const auto& member : members_) member->add_parameters(table, name, block);
}

SharedRegion::Place SharedRegion::place_of(std::size_t member, const Pass& pass,
                                           std::span<Tensor> kept) const {
  const RegionBranch& branch = *members_[member];
  return {branch, part_of(pass, first_[member]),
          kept.subspan(kept_first_[member], branch.num_kept())};
}

// Partial sums of all members add up before the ranks do.
Tensor SharedRegion::forward(const Pass& pass, BranchInput& x, std::span<Tensor> kept) const {
  Tensor entered = enter_region(pass, x.entering(), name_);
  Tensor y;  // (b, s, h)
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const Place at = place_of(i, pass, kept);
    const bool is_last = i + 1 == members_.size();
    Tensor read = is_last ? std::exchange(entered, Tensor()) : entered;
    Tensor own = at.branch.forward_to_row(at.pass, std::move(read), x, at.kept);
    const RegionBranch::Row row = at.branch.row(at.pass);
    own = apply_linear(at.pass, row.k, own);
    if (row.scale != 1.0) scale_in_place(pass.runtime, own, row.scale);
    at.branch.finish_row(at.pass, at.kept);
    if (y.defined()) add_in_place(pass.runtime, y, own);
    y = std::move(own);
  }
  y = leave_region(pass, std::move(y), name_);
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const Place at = place_of(i, pass, kept);
    const RegionBranch::Row row = at.branch.row(at.pass);
    if (!row.has_bias) continue;
    add_bias(pass.runtime, with_scale(pass, row.scale, at.pass.weight(row.k + 1)), y);
  }
  return y;
}

Tensor SharedRegion::backward(const Pass& pass, Tensor dy, BranchInput& x,
                              std::span<Tensor> kept) const {
  ColumnLinears readers;
  {
    const int row_of_first =
        first_.front() + members_.front()->row(part_of(pass, first_.front())).k;
    const LinearGradient all_dy = gather_gradient(pass, row_of_first, dy, name_);
    for (std::size_t i = members_.size(); i-- > 0;) {
      const Place at = place_of(i, pass, kept);
      const RegionBranch::Row row = at.branch.row(at.pass);
      if (row.has_bias) {  // For this rank's tokens.
        finish_bias(at.pass, row.k + 1, with_scale(pass, row.scale, dy));
      }
      // A factor of the output is one of the scales, where there are any.
      const bool is_scaled = row.scale != 1.0 && pass.low == nullptr;
      if (row.scale != 1.0 && pass.low != nullptr) refuse_scaled_data(pass.runtime);
      Tensor d = at.branch.take_row_input(at.pass, at.kept);
      d = backward_row(at.pass, row.k,
                       is_scaled ? linear_gradient(pass, with_scale(pass, row.scale, all_dy.rows),
                                                   {row.k, Held::whole})
                                 : all_dy,
                       std::move(d));
      at.branch.remake(at.pass, x, at.kept);
      ColumnLinears own = at.branch.backward_inside(at.pass, std::move(d), at.kept);
      for (ColumnLinear& each : own.all()) each.k += first_[i];
      readers.add_before(std::move(own));
    }
    dy = {};
  }
  Tensor dx = backward_columns(pass, readers.all(), x.take(), name_);  // (b, s, h)
  drop_all(kept);
  return dx;
}

std::int64_t SharedRegion::forward_flops_per_sample(int block) const {
  std::int64_t flops = 0;
  for (const auto& member : members_) flops += member->forward_flops_per_sample(block);
  return flops;
}

}  // namespace shardsim
