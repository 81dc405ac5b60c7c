#include "strategies/sharding/expert_parallel.hpp"

#include <numeric>
#include <vector>

#include "sim/kernel/error.hpp"

#include "strategies/model/layer.hpp"

namespace shardsim {

namespace {

// Elements to or from each member: `counts` has as many rows of each of its experts.
std::vector<std::int64_t> splits_of(const std::vector<std::int64_t>& counts, int members,
                                    std::int64_t row) {
  std::vector<std::int64_t> splits;
  splits.reserve(to_size(members));
  const std::ptrdiff_t each = std::ssize(counts) / members;
  for (auto first = counts.begin(); first != counts.end(); first += each) {
    splits.push_back(std::accumulate(first, first + each, std::int64_t{0}) * row);
  }
  return splits;
}

// How many rows of all slices' are each rank's.
struct SliceRows {
  std::vector<std::int64_t> ends;
  std::int64_t total = 0;
  [[nodiscard]] std::int64_t first(int slice) const {
    return slice == 0 ? 0 : ends[to_size(slice - 1)];
  }
  [[nodiscard]] std::int64_t count(int slice) const { return ends[to_size(slice)] - first(slice); }
  [[nodiscard]] Tensor part(const Tensor& all, int slice) const {
    const std::int64_t row = last_dim(all);
    return all.view(first(slice) * row, {count(slice), row});
  }
};

SliceRows slice_rows(const ExpertCounts& counts, int slices) {
  SliceRows rows;
  const std::size_t each = counts.gathered.size() / to_size(slices);
  for (std::size_t i = 0; i < counts.gathered.size(); ++i) {
    rows.total += counts.gathered[i];
    if ((i + 1) % each == 0) rows.ends.push_back(rows.total);
  }
  return rows;
}

void copy_elements(Runtime& runtime, const char* name, const Tensor& from, const Tensor& to) {
  runtime.compute(memory_op(name, to.dtype(), 2 * to.num_bytes()), [&] {
    for (std::int64_t i = 0; i < to.numel(); ++i) to.set(i, from.get(i));
  });
}

}  // namespace

ExpertParallel::ExpertParallel(Mesh& mesh, bool token_shards)
    : mesh_(mesh), token_shards_(token_shards) {
  const MeshShape& shape = mesh.shape();
  const MeshPlace& place = mesh.place();
  group_.size = shape.ep;
  group_.rank = mesh.ep();
  group_.slices = shape.etp;
  group_.slice = shape.etp_of(place);
  group_.first = shape.expert_index(place) - shape.expert_part_of(place);
  group_.context_parts = shape.cp;
  group_.token_shards = shape.tp;
  if (shape.ep == 1) return;
  group_.nodes = shape.dispatch_nodes;
  if (group_.nodes > 0) by_node_.emplace(mesh, turns_);
}

Tensor ExpertParallel::exchange_counts(Runtime& runtime, const Tensor& counts) {
  Tensor received = runtime.allocate(MemoryCategory::comm, counts.shape(), counts.dtype());
  mesh_.ep_group()
      ->all_to_all(received, counts, {}, {},
                   {.label = "expert counts", .traffic = TrafficClass::scalar})
      .wait();
  return received;
}

Tensor ExpertParallel::gather_counts(Runtime& runtime, const Tensor& received) {
  Tensor all =
      runtime.allocate(MemoryCategory::comm, {slices(), received.numel()}, received.dtype());
  mesh_.etp_group()
      ->all_gather(all, received, {.label = "expert counts", .traffic = TrafficClass::scalar})
      .wait();
  return all;
}

// Frameworks send lists of unlike tensors so: each rank's are a collective of their own.
Tensor ExpertParallel::gather_slices(Runtime& runtime, const Tensor& rows,
                                     const ExpertCounts& counts, bool are_equal,
                                     const CallOptions& options) {
  const SliceRows of = slice_rows(counts, slices());
  const std::int64_t row = last_dim(rows);
  Tensor all = runtime.allocate(MemoryCategory::activations, {of.total, row}, rows.dtype());
  if (are_equal) {
    mesh_.etp_group()->all_gather(all, rows, options).wait();
    return all;
  }
  copy_elements(runtime, "copy_own_slice", rows, of.part(all, group_.slice));
  for (int slice = 0; slice < slices(); ++slice) {
    if (of.count(slice) == 0) continue;
    mesh_.etp_group()->broadcast(of.part(all, slice), slice, options).wait();
  }
  return all;
}

Tensor ExpertParallel::reduce_slices(Runtime& runtime, const Tensor& rows,
                                     const ExpertCounts& counts, bool are_equal,
                                     const CallOptions& options) {
  const SliceRows of = slice_rows(counts, slices());
  const std::int64_t row = last_dim(rows);
  Tensor own = runtime.allocate(MemoryCategory::comm, {of.count(group_.slice), row}, rows.dtype());
  if (are_equal) {
    mesh_.etp_group()->reduce_scatter(own, rows, ReduceOp::sum, options).wait();
    return own;
  }
  for (int slice = 0; slice < slices(); ++slice) {
    if (of.count(slice) == 0) continue;
    mesh_.etp_group()->reduce(of.part(rows, slice), ReduceOp::sum, slice, options).wait();
  }
  copy_elements(runtime, "copy_own_slice", of.part(rows, group_.slice), own);
  return own;
}

PendingTensor ExpertParallel::exchange(Runtime& runtime, MemoryCategory category, Tensor rows,
                                       const Counts& sent, const Counts& received,
                                       const CallOptions& options, CallSite site) {
  const std::int64_t row = last_dim(rows);
  const std::int64_t arriving = std::accumulate(received.begin(), received.end(), std::int64_t{0});
  Tensor arrived = runtime.allocate(category, {arriving, row}, rows.dtype());
  const Counts to = splits_of(sent, size(), row);
  const Counts from = splits_of(received, size(), row);
  Work work = mesh_.ep_group()->all_to_all(arrived, rows, to, from, options, site);
  return {std::move(arrived), std::move(rows), std::move(work)};
}

PendingTensor ExpertParallel::dispatch(Runtime& runtime, Tensor rows, const ExpertCounts& counts,
                                       const CallOptions& options) {
  return exchange(runtime, MemoryCategory::comm, std::move(rows), counts.sent, counts.received,
                  options);
}

PendingTensor ExpertParallel::combine(Runtime& runtime, Tensor rows, const ExpertCounts& counts,
                                      const CallOptions& options) {
  return exchange(runtime, MemoryCategory::activations, std::move(rows), counts.received,
                  counts.sent, options);
}

void ExpertParallel::sum_loads(const Tensor& loads, Routed& routed) {
  CallOptions options{.label = "expert loads", .traffic = TrafficClass::scalar};
  routed.loads = loads;
  if (mesh_.data_group() != nullptr) {
    routed.balance = mesh_.data_group()->all_reduce(loads, ReduceOp::sum, options);
  }
  if (!token_shards_ || mesh_.tp_group() == nullptr) return;
  if (routed.balance.pending()) options.after = &routed.balance;
  routed.balance_over_tp = mesh_.tp_group()->all_reduce(loads, ReduceOp::sum, options);
}

void ExpertParallel::keep(std::int64_t sample, int block, Routed routed) {
  Routed& kept = kept_[{sample, block}];
  wait(kept);
  kept = std::move(routed);
}

ExpertParallel::Routed ExpertParallel::take(std::int64_t sample, int block) {
  const auto found = kept_.find({sample, block});
  if (found == kept_.end()) {
    throw Error(ExitCode::internal, "E7013",
                "backward of experts in block " + std::to_string(block) +
                    " finds no forward of the microbatch from sample " + std::to_string(sample));
  }
  Routed routed = std::move(found->second);
  kept_.erase(found);
  wait(routed);
  return routed;
}

void ExpertParallel::wait(Routed& routed) {
  routed.balance.wait();
  routed.balance_over_tp.wait();
}

}  // namespace shardsim
