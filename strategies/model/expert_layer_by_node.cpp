#include <array>
#include <utility>

#include "sim/kernel/error.hpp"

#include "strategies/model/dispatch_payload.hpp"
#include "strategies/model/expert_layer.hpp"
#include "strategies/model/expert_rows.hpp"
#include "strategies/sharding/node_dispatch.hpp"

// The layer with dispatch by node: tokens arrive once on each rank that has experts of theirs, with
// their choice and its weights. The rank's experts run as in a layer of its own, in which pairs of
// other ranks' experts are absent, and their weighted sum goes back.
namespace shardsim {

namespace {

constexpr CallOptions kTravels = {.label = "expert choice", .traffic = TrafficClass::scalar};

std::span<const Tensor> orders_of(std::span<Tensor> kept) {
  return kept.subspan(ExpertLayer::copies_between_nodes, 2);
}

std::int64_t arriving_tokens(const ExpertCounts& counts) {
  std::int64_t rows = 0;
  for (const std::int64_t from_member : counts.hops.back().received) rows += from_member;
  return rows;
}

std::int64_t arriving_pairs(const ExpertCounts& counts) {
  std::int64_t pairs = 0;
  for (const std::int64_t of_expert : counts.received) pairs += of_expert;
  return pairs;
}

}  // namespace

ExpertLayer::Counts ExpertLayer::count_tokens_by_node(const Pass& pass, const NodeDispatch& nodes,
                                                      const Tensor& of,
                                                      const Counts& planned) const {
  const NodeDispatch::Told told = nodes.exchange_counts(pass.runtime, of, moe_.num_experts);
  const auto actual = [&] { return numbers_of(nodes.counts_of(told)); };
  if (!planner_.declares()) {
    const auto decided = pass.runtime.decide_numbers(kExpertTokens, actual);
    return decided ? std::make_shared<ExpertCounts>(with_numbers(*planned, *decided)) : planned;
  }
  pass.runtime.off_the_clock([&] {
    if (actual() == numbers_of(*planned)) return;
    throw Error(ExitCode::internal, "E7014",
                "declared routing sends tokens otherwise than it is planned");
  });
  return planned;
}

ExpertLayer::Dispatched ExpertLayer::send_by_node(const Pass& pass, const NodeDispatch& nodes,
                                                  const Places& places, const Tensor& x,
                                                  Dispatched dispatched,
                                                  std::span<Tensor> kept) const {
  Runtime& runtime = pass.runtime;
  const ExpertCounts& counts = *dispatched.counts;
  const Tensor order = nodes.order(runtime, 0, kept[chosen], counts);
  kept[copies_between_nodes] = order;
  Tensor rows = rows_of(pass, places, x, kept);
  dispatched.rows = nodes.send(runtime, 0, narrowed(runtime, moe_.dispatch_recipe, std::move(rows)),
                               order, counts, {.label = "expert tokens"});
  dispatched.chosen = nodes.send(runtime, 0, kept[chosen], order, counts, kTravels);
  dispatched.gates = nodes.send(runtime, 0, kept[gates], order, counts, kTravels);
  return dispatched;
}

Tensor ExpertLayer::arrive_by_node(const Pass& pass, const NodeDispatch& nodes,
                                   Dispatched dispatched, std::span<Tensor> kept) const {
  Runtime& runtime = pass.runtime;
  const ExpertCounts& counts = *dispatched.counts;
  Turns& turns = pass.parallel.expert->turns();
  turns.pass();
  Tensor rows = dispatched.rows.take();
  Tensor choice = dispatched.chosen.take();
  kept[gates_here] = dispatched.gates.take();
  if (nodes.num_hops() > 1) {
    const Tensor order = nodes.order(runtime, 1, choice, counts);
    kept[copies_inside_node] = order;
    const auto send_on = [&](Tensor& tensor, const CallOptions& options) {
      return nodes.send(runtime, 1, std::exchange(tensor, Tensor()), order, counts, options);
    };
    PendingTensor all_rows = send_on(rows, {.label = "expert tokens"});
    PendingTensor all_choices = send_on(choice, kTravels);
    PendingTensor all_gates = send_on(kept[gates_here], kTravels);
    turns.pass();
    rows = all_rows.take();
    choice = all_choices.take();
    kept[gates_here] = all_gates.take();
  }
  kept[order] =
      order_pairs(runtime, choice, nodes.own_experts(moe_.num_experts), arriving_pairs(counts));
  kept[sizes] = sizes_of(pass, counts);
  if (weighs_activation_) {
    const Tensor pairs = kept[gates_here].view(0, {kept[gates_here].numel(), 1});
    kept[row_gates] = permute_tokens(runtime, pairs, kept[order], 1);
  }
  rows = widened(runtime, moe_.dispatch_recipe, std::move(rows), moe_.row_size(hidden_size_),
                 dispatched.dtype);
  return permute_tokens(runtime, rows, kept[order], moe_.experts_per_token);
}

Tensor ExpertLayer::leave_by_node(const Pass& pass, const NodeDispatch& nodes, Tensor made,
                                  const ExpertCounts& counts, const Shape& shape,
                                  std::span<Tensor> kept) const {
  const Shape here = {arriving_tokens(counts), last_dim(made)};
  Tensor y;
  if (weighs_activation_) {
    y = sum_rows(pass.runtime, made, kept[order], moe_.experts_per_token, here);
    made = {};
  } else {
    kept[output] = std::move(made);
    y = combine_rows(pass.runtime, kept[output], kept[order], kept[gates_here], here);
  }
  std::array<NodeDispatch::Returning, 1> sums = {
      {{.rows = std::move(y), .shape = shape, .options = {.label = "expert outputs"}}}};
  nodes.bring_back(pass.runtime, sums, orders_of(kept), counts);
  return std::move(sums.front().rows);
}

ExpertLayer::Returned ExpertLayer::backward_by_node(const Pass& pass, const NodeDispatch& nodes,
                                                    const Places& places, Tensor dy,
                                                    const ExpertCounts& counts,
                                                    std::span<Tensor> kept) const {
  Runtime& runtime = pass.runtime;
  const Shape tokens = dy.shape();
  const Shape choice = {num_rows(dy), moe_.experts_per_token};
  const DType dtype = dy.dtype();
  Tensor sent = narrowed(runtime, moe_.dispatch_recipe, std::move(dy));
  sent = nodes.send_on(runtime, std::exchange(sent, Tensor()), orders_of(kept), counts,
                       {.label = "expert output gradients"});
  const Tensor here = widened(runtime, moe_.dispatch_recipe, std::exchange(sent, Tensor()),
                              moe_.row_size(hidden_size_), dtype);
  const std::int64_t k = moe_.experts_per_token;
  CombineGradient gradient;
  if (weighs_activation_) {
    gradient.rows = sum_rows_backward(runtime, here, kept[order], k);
  } else {
    gradient = combine_rows_backward(runtime, here, kept[output], kept[order], kept[gates_here]);
  }
  kept[output] = {};
  const Tensor rows = backward_experts(pass, places, std::exchange(gradient.rows, Tensor()), kept);
  if (weighs_activation_) {
    const Shape pairs = {kept[gates_here].numel(), 1};
    const Tensor slopes = std::exchange(kept[row_gates], Tensor());
    gradient.gates = permute_tokens_backward(runtime, slopes, kept[order], 1, pairs)
                         .view(0, kept[gates_here].shape());
  }
  std::array<NodeDispatch::Returning, 2> sums = {
      {{.rows = permute_tokens_backward(runtime, rows, kept[order], moe_.experts_per_token,
                                        here.shape()),
        .shape = tokens,
        .options = {.label = "expert token gradients"}},
       {.rows = std::move(gradient.gates), .shape = choice, .options = kTravels}}};
  nodes.bring_back(runtime, sums, orders_of(kept), counts);
  return {.dx = std::move(sums[0].rows), .gates = std::move(sums[1].rows)};
}

}  // namespace shardsim
