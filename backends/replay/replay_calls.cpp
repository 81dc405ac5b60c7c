#include <algorithm>
#include <utility>

#include "backends/replay/replay_world.hpp"

// The calls of a replay: as FiberGroup and FiberStream have them.
namespace shardsim {

namespace {

// Members that have no programs of their own cannot be told apart.
void require_unfolded(const GangStream& stream) {
  for (const GangStream::Part& part : stream.parts) {
    if (part.group->is_folded()) {
      throw ReplayEnded{"not all members of group " + part.group->name + " are replayed"};
    }
  }
}

}  // namespace

// --- Calls -------------------------------------------------------------------------------------

void ReplayWorld::post(ReplayGang& gang, const ProgramStep& step) {
  const ProgramCall& call = gang.program.tables->call(step.row);
  GangWork& work = gang.works[step.slot];
  work.stream = static_cast<std::size_t>(call.group);
  if (gang.code == nullptr) {
    const GangStream& stream = gang.streams[work.stream];
    hash_call(gang.hash(0), stream.parts.front().group->path, call);
  }
  if (call.kind == CallKind::collective) {
    post_collective(gang, call, work);
  } else {
    post_messages(gang, call, work);
  }
  gang.follows = nullptr;
}

void ReplayWorld::post_collective(ReplayGang& gang, const ProgramCall& call, GangWork& work) {
  GangStream& stream = gang.streams[work.stream];
  work.by_member = false;
  work.operations.clear();
  for (const GangStream::Part& part : stream.parts) {
    work.operations.push_back(&open_collective(stream, part, call));
  }
  ++stream.next_sequence;
  if (row_of(call.collective).path == CollectivePath::pairs) {
    require_unfolded(stream);
    for (std::size_t member = 0; member < gang.size(); ++member) {
      const auto place = static_cast<std::size_t>(stream.streams[member].place);
      stream.operation(work, member).calls[place] = &call;
    }
  }
  if (stream.last == nullptr && gang.follows == nullptr && !gang.members.empty()) {
    order_freely(gang, stream, work);
  } else {
    for (std::size_t member = 0; member < gang.size(); ++member) {
      order(gang, member, stream, stream.operation(work, member));
      gang.clock(member).begin_collective(rules_);
    }
  }
  stream.last = &work;
  launch_all();
}

ReplayOperation& ReplayWorld::open_collective(GangStream& stream, const GangStream::Part& part,
                                              const ProgramCall& call) {
  ReplayGroup& group = *part.group;
  const std::int64_t sequence = stream.next_sequence;
  const auto index = static_cast<std::size_t>(sequence - group.first_forming);
  if (index == group.forming.size()) {
    ReplayOperation& opened = open(ReplayOperation::Kind::collective, group);
    opened.sequence = sequence;
    opened.call = &call;
    opened.pending = group.num_running;
    opened.unwaited = group.num_running;
    if (row_of(call.collective).path == CollectivePath::pairs) {
      opened.calls.resize(static_cast<std::size_t>(group.size()));
    }
    group.forming.push(&opened);
  }
  ReplayOperation& operation = *group.forming[index];
  if (operation.call != &call && !same_call(operation.call->record, call.record)) {
    throw ReplayEnded{"calls of group " + group.name + " differ"};
  }
  operation.num_arrived += part.num_members;
  if (operation.num_arrived == group.num_running) {
    group.first_forming = sequence + 1;
    group.forming.pop();
  }
  return operation;
}

void ReplayWorld::post_messages(ReplayGang& gang, const ProgramCall& call, GangWork& work) {
  GangStream& stream = gang.streams[work.stream];
  require_unfolded(stream);
  work.by_member = true;
  work.operations.clear();
  for (std::size_t member = 0; member < gang.size(); ++member) {
    work.operations.push_back(
        call.kind == CallKind::batch
            ? &post_batch(gang, member, stream, call)
            : &post_message(gang, member, stream, call, call.messages.front()));
  }
  stream.last = &work;
  launch_all();
}

ReplayOperation& ReplayWorld::post_batch(ReplayGang& gang, std::size_t member, GangStream& stream,
                                         const ProgramCall& call) {
  ReplayGroup& group = stream.group_of(member);
  group.num_batches.resize(group.layout.members.size());
  ++group.num_batches[static_cast<std::size_t>(stream.streams[member].place)];
  ReplayOperation& batch = open(ReplayOperation::Kind::join, group);
  batch.call = &call;
  batch.unwaited = 1;
  batch.pending = 1;  // Held open until all parts are in.
  if (call.messages.empty()) {
    order(gang, member, stream, batch);
    return batch;
  }
  for (const ProgramMessage& message : call.messages) {
    ReplayOperation& part = post_message(gang, member, stream, call, message);
    batch.parts.push_back(&part);
    ++batch.pending;
    follow(batch, part);
  }
  settle(batch, Time());
  return batch;
}

namespace {

void count_message(ReplayGroup::Channel& channel, const ProgramMessage& message,
                   const ProgramCall& call) {
  const bool in_batch = call.kind == CallKind::batch;
  const TrafficClass traffic = in_batch ? TrafficClass::payload : call.record.traffic;
  const std::int64_t bytes = message.bytes();
  std::vector<ReplayGroup::Messages>& kinds = message.sends ? channel.sent : channel.received;
  for (ReplayGroup::Messages& kind : kinds) {
    if (kind.in_batch != in_batch || kind.traffic != traffic || kind.bytes != bytes) continue;
    ++kind.times;
    return;
  }
  kinds.push_back({in_batch, traffic, bytes, 1});
}

}  // namespace

ReplayOperation& ReplayWorld::post_message(ReplayGang& gang, std::size_t member, GangStream& stream,
                                           const ProgramCall& call, const ProgramMessage& message) {
  const int place = stream.streams[member].place;
  const int source = message.sends ? place : message.peer;
  const int destination = message.sends ? message.peer : place;
  ReplayGroup::Channel& channel = stream.group_of(member).channel(source, destination);
  count_message(channel, message, call);
  ReplayOperation* transfer = nullptr;
  if (!channel.waiting.empty() && channel.sender_waits != message.sends) {
    transfer = channel.waiting.pop();
    const CallRecord record = record_of(message, call);
    const CallRecord first = record_of(*transfer->message, *transfer->call);
    if (!same_message(message.sends ? record : first, message.sends ? first : record)) {
      throw ReplayEnded{"a message of group " + transfer->group->name + " differs on both sides"};
    }
  } else {
    transfer = &open(ReplayOperation::Kind::transfer, stream.group_of(member));
    transfer->sequence = channel.next_sequence++;
    transfer->source = source;
    transfer->destination = destination;
    transfer->message = &message;
    transfer->call = &call;
    transfer->pending = 2;
    transfer->unwaited = 2;
    channel.waiting.push(transfer);
    channel.sender_waits = message.sends;
  }
  ReplayOperation& operation = message.sends && options_.buffered_sends
                                   ? buffered(*transfer, message, call, gang.clock(member).now())
                                   : *transfer;
  order(gang, member, stream, operation);
  return operation;
}

// As FiberCommunicator::post_buffered_send.
ReplayOperation& ReplayWorld::buffered(ReplayOperation& transfer, const ProgramMessage& message,
                                       const ProgramCall& call, Time now) {
  ReplayOperation& departure = open(ReplayOperation::Kind::departure, *transfer.group);
  departure.sequence = transfer.sequence;
  departure.source = transfer.source;
  departure.destination = transfer.destination;
  departure.message = &message;
  departure.call = &call;
  departure.pending = 1;
  departure.unwaited = 1;
  departure.cost = transfer_price(departure, now);
  transfer.is_buffered = true;
  follow(transfer, departure);
  release(transfer, 1);  // The sender's interest in it ends here.
  return departure;
}

// As FiberStream::order.
void ReplayWorld::order(ReplayGang& gang, std::size_t member, GangStream& stream,
                        ReplayOperation& operation) {
  const bool follows = gang.follows != nullptr;
  if (options_.lanes != nullptr) options_.lanes->post(gang, member, stream, operation);
  Time ready = gang.clock(member).post(follows, rules_);
  if (stream.last == nullptr) {
    ready = max(ready, stream.streams[member].free);
  } else {
    ReplayOperation& last = stream.operation(*stream.last, member);
    if (last.resolved) {
      ready = max(ready, last.end);
      if (options_.lanes != nullptr) options_.lanes->follow(operation, last);
    } else if (!last.is_followed_by(operation)) {
      ++operation.pending;
      follow(operation, last);
    }
  }
  if (follows) {
    ++operation.pending;
    const GangStream& other = gang.streams[gang.follows->stream];
    follow(operation, other.operation(*gang.follows, member));
  }
  settle(operation, ready);
}

// The same for all members, where nothing is under way that their collectives could come behind.
void ReplayWorld::order_freely(ReplayGang& gang, GangStream& stream, GangWork& work) {
  if (options_.lanes != nullptr) options_.lanes->post_freely(gang, work);
  for (std::size_t member = 0; options_.lanes == nullptr && member < gang.size(); ++member) {
    const GangStream::Stream& own = stream.streams[member];
    ReplayOperation& operation = *work.operations[own.part];
    RankClock& clock = gang.members[member].clock;
    operation.start = max(operation.start, max(clock.post(false, rules_), own.free));
    clock.begin_collective(rules_);
  }
  for (std::size_t part = 0; part < stream.parts.size(); ++part) {
    ReplayOperation& operation = *work.operations[part];
    operation.pending -= stream.parts[part].num_members - 1;
    settle(operation, operation.start);
  }
}

bool ReplayWorld::await(ReplayGang& gang, const GangWork& work) {
  for (ReplayOperation* operation : work.operations) {
    if (operation->resolved) continue;
    operation->waiters.push_back(&gang);
    ++gang.num_awaited;
  }
  return gang.num_awaited == 0;
}

void ReplayWorld::finish_wait(ReplayGang& gang, GangWork& work) {
  GangStream& stream = gang.streams[work.stream];
  const bool is_transfer = work.operations.front()->is_transfer();
  if (options_.lanes != nullptr) {
    options_.lanes->wait(gang, work, is_transfer);
  } else if (gang.members.empty()) {
    const ReplayOperation& operation = *work.operations.front();
    RankState& rank = *gang.ranks.front();
    rank.wait(operation.start, operation.end, is_transfer, rules_);
    add_busy(rank.index(), operation.end - operation.start);
    stream.streams.front().free = max(stream.streams.front().free, operation.end);
  } else {
    const std::uint64_t stretch = gang.digest->stretch(gang.num_waits++);
    for (std::size_t i = 0; i < gang.size(); ++i) {
      GangMember& member = gang.members[i];
      const ReplayOperation& operation = stream.operation(work, i);
      const Time start = operation.start;
      const Time end = operation.end;
      const std::uint64_t times = RankState::wait_word(start, end, member.clock.now());
      member.hash.wait_after(stretch, times);
      member.clock.wait(start, end, is_transfer, rules_);
      add_saturating(member.busy, (end - start).picoseconds());
      stream.streams[i].free = max(stream.streams[i].free, end);
    }
  }
  if (!gang.devices.empty()) tell_streams(gang, stream, work);
  if (stream.last == &work) stream.last = nullptr;
  if (stream.track >= 0) trace(gang, stream, *work.operations.front());
  for (std::size_t i = 0; i < work.operations.size(); ++i) {
    release(*work.operations[i], work.by_member ? 1 : stream.parts[i].num_members);
  }
}

void ReplayWorld::release(ReplayOperation& operation, int members) {
  operation.unwaited -= members;
  if (operation.unwaited > 0) return;
  for (ReplayOperation* part : operation.parts) release(*part, 1);
  pool_.put_back(operation);
}

}  // namespace shardsim
