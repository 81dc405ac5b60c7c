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
  const std::size_t each = counts.size() / to_size(members);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (i % each == 0) splits.push_back(0);
    splits.back() += counts[i] * row;
  }
  return splits;
}

}  // namespace

ExpertParallel::ExpertParallel(Mesh& mesh, bool token_shards)
    : mesh_(mesh), token_shards_(token_shards) {
  const MeshShape& shape = mesh.shape();
  const MeshPlace& place = mesh.place();
  group_.size = shape.ep;
  group_.rank = mesh.ep();
  const std::int64_t number =
      (std::int64_t{place.dp_shard} * shape.cp + place.cp) * shape.tp + place.tp;
  group_.first = number - group_.rank;
  group_.context_parts = shape.cp;
  group_.token_shards = shape.tp;
}

Tensor ExpertParallel::exchange_counts(Runtime& runtime, const Tensor& counts) {
  Tensor received = runtime.allocate(MemoryCategory::comm, counts.shape(), counts.dtype());
  mesh_.ep_group()
      ->all_to_all(received, counts, {}, {},
                   {.label = "expert counts", .traffic = TrafficClass::scalar})
      .wait();
  return received;
}

PendingTensor ExpertParallel::exchange(Runtime& runtime, MemoryCategory category, Tensor rows,
                                       const Counts& sent, const Counts& received,
                                       const char* label, CallSite site) {
  const std::int64_t row = last_dim(rows);
  const std::int64_t arriving = std::accumulate(received.begin(), received.end(), std::int64_t{0});
  Tensor arrived = runtime.allocate(category, {arriving, row}, rows.dtype());
  const Counts to = splits_of(sent, size(), row);
  const Counts from = splits_of(received, size(), row);
  Work work = mesh_.ep_group()->all_to_all(arrived, rows, to, from, {.label = label}, site);
  return {std::move(arrived), std::move(rows), std::move(work)};
}

PendingTensor ExpertParallel::dispatch(Runtime& runtime, Tensor rows, const ExpertCounts& counts,
                                       const char* label) {
  return exchange(runtime, MemoryCategory::comm, std::move(rows), counts.sent, counts.received,
                  label);
}

PendingTensor ExpertParallel::combine(Runtime& runtime, Tensor rows, const ExpertCounts& counts,
                                      const char* label) {
  return exchange(runtime, MemoryCategory::activations, std::move(rows), counts.received,
                  counts.sent, label);
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
