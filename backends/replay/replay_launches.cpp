#include <algorithm>
#include <span>
#include <utility>

#include "backends/replay/replay_world.hpp"

// When operations of a replay start and end: as the engine has it.
namespace shardsim {

namespace {

// Heap order: the earliest start on top; among equals, the one queued first.
constexpr auto kLater = [](const auto& a, const auto& b) {
  return a.start != b.start ? a.start > b.start : a.order > b.order;
};

constexpr std::uint64_t kProgressInterval = 1U << 16U;

// Whether each member expects what the others send it.
bool pairs_agree(std::span<const AllToAllCounts> pairs) {
  for (std::size_t from = 0; from < pairs.size(); ++from) {
    for (std::size_t to = 0; to < pairs.size(); ++to) {
      if (pairs[from].send[to] != pairs[to].recv[from]) return false;
    }
  }
  return true;
}

}  // namespace

ReplayOperation& ReplayWorld::open(ReplayOperation::Kind kind, ReplayGroup& group) {
  ReplayOperation& operation = pool_.take(kind, group);
  if (options_.lanes != nullptr) options_.lanes->open(operation);
  return operation;
}

void ReplayWorld::settle(ReplayOperation& operation, Time time) {
  operation.start = max(operation.start, time);
  if (--operation.pending > 0) return;
  launches_.push_back({operation.start, num_launched_++, &operation});
  if (in_order_) std::push_heap(launches_.begin(), launches_.end(), kLater);
}

void ReplayWorld::settle(ReplayOperation& operation, const ReplayOperation& prior) {
  if (options_.lanes != nullptr) options_.lanes->follow(operation, prior);
  settle(operation, prior.end);
}

void ReplayWorld::follow(ReplayOperation& operation, ReplayOperation& prior) {
  if (prior.resolved) {
    settle(operation, prior);
  } else {
    prior.dependents.push_back(&operation);
  }
}

// All that can start does so before its ranks ask for it, where the order of starts is free.
void ReplayWorld::launch_all() {
  if (in_order_) return;
  while (!launches_.empty()) launch_next();
}

void ReplayWorld::launch_next() {
  if (in_order_) std::pop_heap(launches_.begin(), launches_.end(), kLater);
  ReplayOperation& operation = *launches_.back().operation;
  launches_.pop_back();
  launch(operation);
  operation.resolved = true;
  for (ReplayGang* waiter : operation.waiters) {
    if (--waiter->num_awaited == 0) ready_.push_back(waiter);
  }
  operation.waiters.clear();
  for (ReplayOperation* dependent : operation.dependents) settle(*dependent, operation);
  operation.dependents.clear();
  if (options_.on_progress && num_launched_ % kProgressInterval == 0) options_.on_progress();
}

void ReplayWorld::launch(ReplayOperation& operation) {
  if (operation.kind == ReplayOperation::Kind::join) {
    if (options_.lanes != nullptr) options_.lanes->join(operation);
    return end_batch(operation);
  }
  const Time price = launch_price(operation);
  if (options_.lanes != nullptr) options_.lanes->launch(operation, price);
  operation.end = operation.start + price;
}

void ReplayWorld::end_batch(ReplayOperation& batch) {
  batch.end = batch.start;
  // A wait counts as exposed from the start of the first part.
  for (const ReplayOperation* part : batch.parts) batch.start = min(batch.start, part->start);
}

Time ReplayWorld::launch_price(ReplayOperation& operation) {
  switch (operation.kind) {
    case ReplayOperation::Kind::collective:
      return collective_price(operation);
    case ReplayOperation::Kind::transfer:
      if (operation.is_buffered) return {};  // Paid for when it left.
      return transfer_price(operation, operation.start);
    case ReplayOperation::Kind::departure:
      return operation.cost;
    case ReplayOperation::Kind::join:
      break;
  }
  return {};
}

Time ReplayWorld::transfer_price(const ReplayOperation& message, Time start) {
  const std::vector<int>& members = message.group->layout.members;
  return network_->transfer(members[static_cast<std::size_t>(message.source)],
                            members[static_cast<std::size_t>(message.destination)],
                            message.message->bytes(), start);
}

CollectivePrice ReplayWorld::price_of(const ReplayOperation& operation) {
  ReplayGroup& group = *operation.group;
  const ReplayShape shape(*operation.call, operation.calls, group.size());
  if (!pairs_agree(shape->pairs)) throw ReplayEnded{"counts of group " + group.name + " differ"};
  const DoubleTree* const tree = shape->row->reduces_to_all() ? &group.double_tree() : nullptr;
  return network_->collective(request_of(*shape, group.layout, tree, options_.all_reduce_algorithm),
                              operation.start);
}

Time ReplayWorld::collective_price(ReplayOperation& operation) {
  std::vector<ReplayGroup::Collectives>& kinds = operation.group->collectives;
  const auto is_kind = [&](const ReplayGroup::Collectives& kind) {
    return kind.call == operation.call && kind.calls == operation.calls;
  };
  auto kind = std::ranges::find_if(kinds, is_kind);
  if (kind == kinds.end() || !has_constant_prices_) {
    const CollectivePrice price = price_of(operation);
    kind = std::find_if(kind, kinds.end(), [&](const auto& other) {
      return is_kind(other) && other.price.algorithm == price.algorithm;
    });
    if (kind == kinds.end()) {
      kind = kinds.insert(kind, {.call = operation.call, .calls = operation.calls});
    }
    kind->price = price;
  }
  ++kind->times;
  operation.algorithm = kind->price.algorithm;
  return kind->price.duration;
}

}  // namespace shardsim
