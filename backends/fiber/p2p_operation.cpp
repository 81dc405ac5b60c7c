#include "backends/fiber/p2p_operation.hpp"

#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "backends/call.hpp"
#include "backends/fiber/fiber_watch.hpp"
#include "backends/fiber/fiber_world.hpp"
#include "backends/fiber/mailbox.hpp"
#include "backends/last_bit_errors.hpp"
#include "backends/trace_hash.hpp"

namespace shardsim {

Moved SingleMessage::moved(int member) const {
  const MessageEnd end = *message_end(member);
  return end.from == end.to ? Moved() : one_message(end.sends, end.bytes);
}

void SingleMessage::count_off_ring(int member) const {
  const MessageEnd end = *message_end(member);
  if (end.from != end.to) group_->off_ring().add(end.sends, end.from, end.to, end.bytes);
}

void TransferOperation::open(FiberGroup& group, std::int64_t sequence, int source,
                             int destination) {
  reopen(group, sequence, {.name = "send"});
  source_ = source;
  destination_ = destination;
  num_unwaited_ = 2;
  mismatched_ = false;
  buffered_ = false;
  sides_[0] = {};
  sides_[1] = {};
  expect(2);
}

bool TransferOperation::join(bool sends, const CallRecord& record, const Tensor& buffer,
                             std::int64_t number) {
  Side& mine = sides_[sends ? 0 : 1];
  const Side& other = sides_[sends ? 1 : 0];
  mine = {.posted = true, .number = number, .record = record, .buffer = buffer};
  if (!other.posted) {
    record_ = record;
    return true;
  }
  mismatched_ = !same_message(other.record, record);
  return !mismatched_;
}

Time TransferOperation::launch(Time start) {
  const Side& from = sides_[0];
  const Side& to = sides_[1];
  const std::int64_t bytes = from.record.count * size_of(from.record.dtype);
  BufferWatch* const watch = group_->world().buffer_watch();
  const std::array<int, 2> ranks = {group_->world_rank(source_), group_->world_rank(destination_)};
  // To itself: a rank's uses are looked at once.
  const std::span<const int> involved(ranks.data(), source_ == destination_ ? 1 : 2);
  if (watch != nullptr) watch->moving(*this, involved);
  if (group_->world().options().has_data && bytes > 0) {
    const Tensor arrives = as_moved(from.buffer, Carried::copies, ranks[0]);
    std::memmove(to.buffer.wire_data(), arrives.wire_data(), static_cast<std::size_t>(bytes));
  }
  if (watch != nullptr) watch->moved(*this, involved);
  // Each side frees its buffer once it has waited, whether the other has or not.
  sides_[0].buffer = {};
  sides_[1].buffer = {};
  if (buffered_) return start;  // Paid for when it left.
  return start + group_->world().network().transfer(group_->world_rank(source_),
                                                    group_->world_rank(destination_), bytes, start);
}

std::optional<MessageEnd> TransferOperation::message_end(int member) const {
  return MessageEnd{.sends = member == source_,
                    .from = source_,
                    .to = destination_,
                    .bytes = record_.count * size_of(record_.dtype)};
}

std::int64_t TransferOperation::trace_id() const {
  return trace_id_of(group_->id(), source_, destination_, sequence_);
}

void TransferOperation::release() {
  if (--num_unwaited_ > 0) return;
  in_use_ = false;
  sides_[0] = {};
  sides_[1] = {};
  group_->free_transfer(*this);
}

std::vector<int> TransferOperation::sides_that(bool have_posted) const {
  std::vector<int> members;
  if (posted(true) == have_posted) members.push_back(source_);
  if (posted(false) == have_posted) members.push_back(destination_);
  return members;
}

void JoinOperation::open(FiberGroup& group, std::int64_t sequence, int member,
                         const CallRecord& record) {
  reopen(group, sequence, record);
  member_ = member;
  cost_ = Time();
  peer_ = -1;
  sent_ = 0;
  trace_id_ = -1;
  parts_.clear();
}

Time JoinOperation::launch(Time start) {
  if (!parts_.empty()) {
    // The engine counts a wait as exposed from the start of the operation: that of its first part.
    Time first = parts_.front()->start();
    for (const FiberOperation* part : parts_) first = min(first, part->start());
    set_start(first);
  }
  return start + cost_;
}

Moved JoinOperation::moved(int member) const {
  Moved sum;
  sum.payload.sent = sent_;
  sum.payload.messages = peer_ >= 0 ? 1 : 0;
  for (const FiberOperation* part : parts_) {
    const Traffic moved = part->moved(member).payload;
    sum.payload.sent += moved.sent;
    sum.payload.received += moved.received;
    sum.payload.messages += moved.messages;
  }
  return sum;
}

void JoinOperation::count_off_ring(int member) const {
  if (peer_ >= 0) group_->off_ring().add(true, member, peer_, sent_);
  for (const FiberOperation* part : parts_) part->count_off_ring(member);
}

void JoinOperation::release() {
  for (FiberOperation* part : parts_) part->release();
  in_use_ = false;
  group_->free_join(*this);
}

}  // namespace shardsim
