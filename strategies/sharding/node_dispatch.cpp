#include "strategies/sharding/node_dispatch.hpp"

#include <numeric>
#include <utility>

#include "strategies/model/expert_rows.hpp"

namespace shardsim {

namespace {

using Numbers = std::vector<std::int64_t>;

std::int64_t sum_of(const Numbers& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
}

Numbers times(const Numbers& rows, std::int64_t width) {
  Numbers elements;
  for (const std::int64_t each : rows) elements.push_back(each * width);
  return elements;
}

Numbers column(const Tensor& table, std::int64_t at) {
  Numbers numbers;
  const std::int64_t width = last_dim(table);
  for (std::int64_t row = 0; row < num_rows(table); ++row) {
    numbers.push_back(static_cast<std::int64_t>(table.get(row * width + at)));
  }
  return numbers;
}

PendingTensor exchange(Runtime& runtime, Communicator& group, Tensor rows, const Numbers& sent,
                       const Numbers& received, const CallOptions& options) {
  const std::int64_t width = last_dim(rows);
  Tensor arrived = runtime.allocate(MemoryCategory::comm, {sum_of(received), width}, rows.dtype());
  Work work = group.all_to_all(arrived, rows, times(sent, width), times(received, width), options);
  return {std::move(arrived), std::move(rows), std::move(work)};
}

// A table with as many rows for each member of `group`.
Tensor tell(Runtime& runtime, Communicator* group, const Tensor& table) {
  if (group == nullptr) return table;
  Tensor told = runtime.allocate(MemoryCategory::comm, table.shape(), table.dtype());
  group
      ->all_to_all(told, table, {}, {}, {.label = "expert counts", .traffic = TrafficClass::scalar})
      .wait();
  return told;
}

}  // namespace

NodeDispatch::NodeDispatch(Mesh& mesh, Turns& turns)
    : turns_(turns),
      nodes_(mesh.shape().dispatch_nodes),
      ranks_(mesh.shape().ep / nodes_),
      node_(mesh.ep() / ranks_),
      rank_(mesh.ep() % ranks_) {
  if (nodes_ > 1) hops_.push_back({mesh.ep_across_group(), true});
  if (ranks_ > 1) hops_.push_back({mesh.ep_inside_group(), false});
}

DispatchGrid NodeDispatch::grid(std::int64_t num_experts) const {
  return {.nodes = nodes_, .ranks = ranks_, .experts = num_experts / nodes_ / ranks_};
}

HopExperts NodeDispatch::own_experts(std::int64_t num_experts) const {
  const std::int64_t here = grid(num_experts).experts;
  return {.first = (std::int64_t{node_} * ranks_ + rank_) * here,
          .each = 1,
          .members = static_cast<int>(here)};
}

HopExperts NodeDispatch::experts_of(int hop, std::int64_t num_experts) const {
  const std::int64_t of_node = num_experts / nodes_;
  if (hops_[to_size(hop)].is_between_nodes) return {.each = of_node, .members = nodes_};
  return {.first = node_ * of_node, .each = of_node / ranks_, .members = ranks_};
}

NodeDispatch::Told NodeDispatch::exchange_counts(Runtime& runtime, const Tensor& chosen,
                                                 std::int64_t num_experts) const {
  Communicator* across = nullptr;
  Communicator* inside = nullptr;
  for (const Hop& hop : hops_) (hop.is_between_nodes ? across : inside) = hop.group;
  Told told;
  told.to_nodes = count_for_nodes(runtime, chosen, grid(num_experts));
  told.from_nodes = tell(runtime, across, told.to_nodes);
  told.to_ranks = count_for_ranks(runtime, told.from_nodes, grid(num_experts));
  told.from_ranks = tell(runtime, inside, told.to_ranks);
  return told;
}

ExpertCounts NodeDispatch::counts_of(const Told& told) const {
  ExpertCounts counts;
  const std::int64_t of_node = last_dim(told.to_nodes) - 1 - ranks_;
  for (std::int64_t node = 0; node < nodes_; ++node) {
    for (std::int64_t expert = 0; expert < of_node; ++expert) {
      const std::int64_t at = node * last_dim(told.to_nodes) + 1 + ranks_ + expert;
      counts.sent.push_back(static_cast<std::int64_t>(told.to_nodes.get(at)));
    }
  }
  for (std::int64_t expert = 1; expert < last_dim(told.from_ranks); ++expert) {
    counts.received.push_back(sum_of(column(told.from_ranks, expert)));
  }
  for (const Hop& hop : hops_) {
    counts.hops.push_back(hop.is_between_nodes
                              ? HopCounts{column(told.to_nodes, 0), column(told.from_nodes, 0)}
                              : HopCounts{column(told.to_ranks, 0), column(told.from_ranks, 0)});
  }
  return counts;
}

Tensor NodeDispatch::order(Runtime& runtime, int hop, const Tensor& chosen,
                           const ExpertCounts& counts) const {
  const auto experts = static_cast<std::int64_t>(counts.sent.size());
  return order_copies(runtime, chosen, experts_of(hop, experts),
                      sum_of(counts.hops[to_size(hop)].sent));
}

PendingTensor NodeDispatch::send(Runtime& runtime, int hop, const Tensor& rows, const Tensor& order,
                                 const ExpertCounts& counts, const CallOptions& options) const {
  const HopCounts& of_hop = counts.hops[to_size(hop)];
  Communicator& group = *hops_[to_size(hop)].group;
  Tensor copies =
      runtime.allocate(MemoryCategory::comm, {order.numel(), last_dim(rows)}, rows.dtype());
  runtime.off_the_clock([&] { copy_rows(rows, order, group.size(), copies); });
  return exchange(runtime, group, std::move(copies), of_hop.sent, of_hop.received, options);
}

Tensor NodeDispatch::send_on(Runtime& runtime, Tensor rows, std::span<const Tensor> orders,
                             const ExpertCounts& counts, const CallOptions& options) const {
  for (int hop = 0; hop < num_hops(); ++hop) {
    PendingTensor sent =
        send(runtime, hop, std::exchange(rows, Tensor()), orders[to_size(hop)], counts, options);
    turns_.pass();
    rows = sent.take();
  }
  return rows;
}

void NodeDispatch::bring_back(Runtime& runtime, std::span<Returning> all,
                              std::span<const Tensor> orders, const ExpertCounts& counts) const {
  for (int hop = num_hops() - 1; hop >= 0; --hop) {
    const HopCounts& of_hop = counts.hops[to_size(hop)];
    Communicator& group = *hops_[to_size(hop)].group;
    std::vector<PendingTensor> sent;
    for (Returning& each : all) {
      sent.push_back(exchange(runtime, group, std::exchange(each.rows, Tensor()), of_hop.received,
                              of_hop.sent, each.options));
    }
    turns_.pass();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Tensor copies = sent[i].take();
      const Shape before =
          hop == 0 ? all[i].shape
                   : Shape{sum_of(counts.hops[to_size(hop - 1)].received), last_dim(copies)};
      all[i].rows = new_activation(runtime, before, copies.dtype());
      runtime.off_the_clock(
          [&] { add_rows(copies, orders[to_size(hop)], {}, group.size(), all[i].rows); });
    }
  }
}

}  // namespace shardsim
