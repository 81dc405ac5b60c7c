#include <algorithm>
#include <utility>

#include "backends/replay/replay_rank.hpp"
#include "backends/replay/replay_world.hpp"

// The calls of a replay, and when their operations start and end: as FiberGroup, FiberStream and
// the engine have them.
namespace shardsim {

namespace {

// Heap order: the earliest start on top; among equals, the one queued first.
constexpr auto kLater = [](const auto& a, const auto& b) {
  return a.start != b.start ? a.start > b.start : a.order > b.order;
};

constexpr std::uint64_t kProgressInterval = 1U << 16U;

// Whether each member expects what the others send it.
bool pairs_agree(const std::vector<AllToAllCounts>& pairs) {
  for (std::size_t from = 0; from < pairs.size(); ++from) {
    for (std::size_t to = 0; to < pairs.size(); ++to) {
      if (pairs[from].send[to] != pairs[to].recv[from]) return false;
    }
  }
  return true;
}

}  // namespace

// --- Calls -------------------------------------------------------------------------------------

void ReplayWorld::post(ReplayRank& rank, const ProgramStep& step) {
  const ProgramCall& call = rank.program.tables->call(step.row);
  const auto group = static_cast<std::size_t>(call.group);
  ReplayStream& stream = rank.streams[group];
  if (rank.code == nullptr) hash_call(rank.state.hash(), stream.group->path, call);
  ReplayOperation* operation = nullptr;
  switch (call.kind) {
    case CallKind::collective:
      operation = &post_collective(rank, stream, call);
      break;
    case CallKind::batch:
      operation = &post_batch(rank, stream, call);
      break;
    case CallKind::send:
    case CallKind::recv:
      operation = &post_message(rank, stream, call, call.messages.front());
      break;
  }
  stream.last = operation;
  rank.works[step.slot] = {operation, group};
  rank.follows = nullptr;
}

ReplayOperation& ReplayWorld::post_collective(ReplayRank& rank, ReplayStream& stream,
                                              const ProgramCall& call) {
  ReplayGroup& group = *stream.group;
  const std::int64_t sequence = stream.next_sequence++;
  const auto index = static_cast<std::size_t>(sequence - group.first_forming);
  if (index == group.forming.size()) {
    ReplayOperation& opened = pool_.take(ReplayOperation::Kind::collective, group);
    opened.sequence = sequence;
    opened.call = &call;
    opened.pending = group.size();
    opened.unwaited = group.size();
    group.forming.push(&opened);
  }
  ReplayOperation& operation = *group.forming[index];
  if (operation.call != &call && !same_call(operation.call->record, call.record)) {
    throw ReplayEnded{"calls of " + group.name + " differ"};
  }
  if (row_of(call.collective).path == CollectivePath::pairs) {
    operation.pairs.resize(static_cast<std::size_t>(group.size()));
    operation.pairs[static_cast<std::size_t>(stream.member)] = {call.send_counts, call.recv_counts,
                                                                call.record.site};
  }
  if (++operation.num_arrived == group.size()) {
    group.first_forming = sequence + 1;
    group.forming.pop();
  }
  order(rank, stream, operation);
  rank.state.clock().begin_collective(rules_);
  return operation;
}

ReplayOperation& ReplayWorld::post_batch(ReplayRank& rank, ReplayStream& stream,
                                         const ProgramCall& call) {
  ReplayOperation& batch = pool_.take(ReplayOperation::Kind::join, *stream.group);
  batch.call = &call;
  batch.unwaited = 1;
  batch.pending = 1;  // Held open until all parts are in.
  if (call.messages.empty()) {
    order(rank, stream, batch);
    return batch;
  }
  for (const ProgramMessage& message : call.messages) {
    ReplayOperation& part = post_message(rank, stream, call, message);
    batch.parts.push_back(&part);
    ++batch.pending;
    follow(batch, part);
  }
  settle(batch, Time());
  return batch;
}

ReplayOperation& ReplayWorld::post_message(ReplayRank& rank, ReplayStream& stream,
                                           const ProgramCall& call, const ProgramMessage& message) {
  ReplayGroup& group = *stream.group;
  const int source = message.sends ? stream.member : message.peer;
  const int destination = message.sends ? message.peer : stream.member;
  ReplayGroup::Channel& channel = group.channels[{source, destination}];
  if (!channel.waiting.empty() && channel.sender_waits != message.sends) {
    ReplayOperation& transfer = *channel.waiting.pop();
    const CallRecord record = record_of(message, call);
    const CallRecord first = record_of(*transfer.message, *transfer.call);
    if (!same_message(message.sends ? record : first, message.sends ? first : record)) {
      throw ReplayEnded{"a message of " + group.name + " differs on both sides"};
    }
    order(rank, stream, transfer);
    return transfer;
  }
  ReplayOperation& transfer = pool_.take(ReplayOperation::Kind::transfer, group);
  transfer.sequence = channel.next_sequence++;
  transfer.source = source;
  transfer.destination = destination;
  transfer.message = &message;
  transfer.call = &call;
  transfer.pending = 2;
  transfer.unwaited = 2;
  channel.waiting.push(&transfer);
  channel.sender_waits = message.sends;
  order(rank, stream, transfer);
  return transfer;
}

// As FiberStream::order.
void ReplayWorld::order(ReplayRank& rank, ReplayStream& stream, ReplayOperation& operation) {
  Time ready = rank.state.clock().post(rank.follows != nullptr, rules_);
  if (stream.last == nullptr || stream.last->resolved) {
    ready = max(ready, stream.last == nullptr ? stream.free : stream.last->end);
  } else if (!stream.last->is_followed_by(operation)) {
    ++operation.pending;
    follow(operation, *stream.last);
  }
  if (rank.follows != nullptr) {
    ++operation.pending;
    follow(operation, *rank.follows);
  }
  settle(operation, ready);
}

bool ReplayWorld::await(ReplayRank& rank, ReplayOperation& operation) {
  if (operation.resolved) return true;
  rank.next_waiter = std::exchange(operation.waiters, &rank);
  return false;
}

void ReplayWorld::finish_wait(ReplayRank& rank, ReplayStream& stream, ReplayOperation& operation) {
  if (rank.code == nullptr) {
    rank.state.wait(operation.start, operation.end, operation.is_transfer(), rules_);
  } else {
    rank.state.wait_after(rank.digest->stretch(rank.num_waits++), operation.start, operation.end,
                          operation.is_transfer(), rules_);
  }
  if (stream.last == &operation) stream.last = nullptr;
  stream.free = max(stream.free, operation.end);
  account(rank, stream, operation);
  release(operation);
}

void ReplayWorld::release(ReplayOperation& operation) {
  if (--operation.unwaited > 0) return;
  for (ReplayOperation* part : operation.parts) release(*part);
  pool_.put_back(operation);
}

// --- Operations --------------------------------------------------------------------------------

void ReplayWorld::settle(ReplayOperation& operation, Time time) {
  operation.start = max(operation.start, time);
  if (--operation.pending > 0) return;
  launches_.push_back({operation.start, num_launched_++, &operation});
  if (in_order_) std::push_heap(launches_.begin(), launches_.end(), kLater);
}

void ReplayWorld::follow(ReplayOperation& operation, ReplayOperation& prior) {
  if (prior.resolved) {
    settle(operation, prior.end);
  } else {
    prior.dependents.push_back(&operation);
  }
}

void ReplayWorld::launch_next() {
  if (in_order_) std::pop_heap(launches_.begin(), launches_.end(), kLater);
  ReplayOperation& operation = *launches_.back().operation;
  launches_.pop_back();
  operation.end = launch(operation);
  operation.resolved = true;
  ReplayRank* waiter = std::exchange(operation.waiters, nullptr);
  while (waiter != nullptr) {
    ready_.push_back(waiter);
    waiter = std::exchange(waiter->next_waiter, nullptr);
  }
  for (ReplayOperation* dependent : operation.dependents) settle(*dependent, operation.end);
  operation.dependents.clear();
  if (options_.on_progress && num_launched_ % kProgressInterval == 0) options_.on_progress();
}

Time ReplayWorld::launch(ReplayOperation& operation) {
  switch (operation.kind) {
    case ReplayOperation::Kind::collective:
      return launch_collective(operation);
    case ReplayOperation::Kind::transfer: {
      const std::vector<int>& members = operation.group->layout.members;
      const std::int64_t bytes = operation.message->count * size_of(operation.message->dtype);
      return operation.start +
             network_->transfer(members[static_cast<std::size_t>(operation.source)],
                                members[static_cast<std::size_t>(operation.destination)], bytes,
                                operation.start);
    }
    case ReplayOperation::Kind::join:
      break;
  }
  const Time end = operation.start;
  // A wait counts as exposed from the start of the first part.
  for (const ReplayOperation* part : operation.parts) {
    operation.start = min(operation.start, part->start);
  }
  return end;
}

Time ReplayWorld::launch_collective(ReplayOperation& operation) {
  const ProgramCall& call = *operation.call;
  ReplayGroup& group = *operation.group;
  const CollectiveRow& row = row_of(call.collective);
  operation.shape = {.row = &row,
                     .size = group.size(),
                     .root = call.record.root,
                     .count = call.record.count,
                     .width = size_of(call.record.dtype),
                     .padding = call.record.padding,
                     .counts = call.counts,
                     .padding_at = call.padding_at,
                     .pairs = operation.pairs};
  if (!pairs_agree(operation.pairs)) throw ReplayEnded{"counts of " + group.name + " differ"};
  const DoubleTree* const tree = row.reduces_to_all() ? &group.double_tree() : nullptr;
  const CollectivePrice price = network_->collective(
      request_of(operation.shape, group.layout, tree, options_.all_reduce_algorithm),
      operation.start);
  operation.algorithm = price.algorithm;
  operation.even = moves_evenly(operation.shape, price.algorithm);
  if (operation.even) {
    operation.even_moved = moved_by(operation.shape, price.algorithm, tree, 0);
  }
  return operation.start + price.duration;
}

}  // namespace shardsim
