#include "strategies/model/shared_region.hpp"

#include <iterator>
#include <utility>

namespace shardsim {

SharedRegion::SharedRegion(const char* name, Members members, int block)
    : name_(name), members_(std::move(members)) {
  ParameterTable counted;
  counted.begin_unit(name);
  for (const auto& member : members_) {
    first_.push_back(static_cast<int>(counted.specs().size()));
    member->add_parameters(counted, name, block);
  }
}

void SharedRegion::add_parameters(ParameterTable& table, const std::string& name, int block) const {
  for (const auto& member : members_) member->add_parameters(table, name, block);
}

std::size_t SharedRegion::num_kept() const {
  std::size_t count = 0;
  for (const auto& member : members_) count += member->num_kept();
  return count;
}

std::vector<SharedRegion::Place> SharedRegion::places_of(const Pass& pass,
                                                         std::span<Tensor> kept) const {
  std::vector<Place> places;
  std::size_t at = 0;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const std::size_t count = members_[i]->num_kept();
    places.push_back({*members_[i], part_of(pass, first_[i]), first_[i], kept.subspan(at, count)});
    at += count;
  }
  return places;
}

// Partial sums of all members add up before the ranks do.
Tensor SharedRegion::forward(const Pass& pass, BranchInput& x, std::span<Tensor> kept) const {
  const std::vector<Place> places = places_of(pass, kept);
  Tensor entered = enter_region(pass, x.value(), name_);
  Tensor y;  // (b, s, h)
  for (const Place& at : places) {
    const bool is_last = &at == &places.back();
    Tensor read = is_last ? std::exchange(entered, Tensor()) : entered;
    Tensor own = at.branch.forward_inside(at.pass, std::move(read), x, at.kept);
    own = apply_linear(at.pass, at.branch.row(at.pass).k, own);
    at.branch.drop_row_input(at.kept);
    if (y.defined()) add_in_place(pass.runtime, y, own);
    y = std::move(own);
  }
  y = leave_region(pass, std::move(y), name_);
  for (const Place& at : places) {
    const RegionBranch::Row row = at.branch.row(at.pass);
    if (row.has_bias) add_bias(pass.runtime, at.pass.weight(row.k + 1), y);
  }
  return y;
}

Tensor SharedRegion::backward(const Pass& pass, Tensor dy, BranchInput& x,
                              std::span<Tensor> kept) const {
  const std::vector<Place> places = places_of(pass, kept);
  std::vector<ColumnLinear> readers;
  {
    const Tensor all_dy = leave_region_backward(pass, dy, name_);
    for (auto at = places.rbegin(); at != places.rend(); ++at) {
      const RegionBranch::Row row = at->branch.row(at->pass);
      if (row.has_bias) finish_bias(at->pass, row.k + 1, dy);  // For this rank's tokens.
      Tensor d = backward_row(at->pass, row.k, all_dy, at->branch.row_input(at->pass, at->kept));
      std::vector<ColumnLinear> own = at->branch.backward_inside(at->pass, std::move(d), at->kept);
      for (ColumnLinear& each : own) each.k += at->first;
      readers.insert(readers.begin(), std::make_move_iterator(own.begin()),
                     std::make_move_iterator(own.end()));
    }
    dy = {};
  }
  Tensor dx = backward_columns(pass, readers, x.take(), name_);  // (b, s, h)
  for (Tensor& each : kept) each = {};
  return dx;
}

std::int64_t SharedRegion::forward_flops_per_sample(int block) const {
  std::int64_t flops = 0;
  for (const auto& member : members_) flops += member->forward_flops_per_sample(block);
  return flops;
}

}  // namespace shardsim
