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

// --- Halves of tagged messages -----------------------------------------------------------------

void MessageHalf::set_buffered(Time price) {
  buffered_ = true;
  cost_ = price;
  buffer_ = unwatched_copy(*buffer_);
}

void MessageHalf::match(Engine& engine, MessageHalf& send, Time start, Time price) {
  other_ = &send;
  send.other_ = this;
  source_ = send.member_;
  sent_count_ = send.record_.count;
  cost_ = price;
  settle(engine, start);
  if (send.buffered_) return;
  send.cost_ = price;
  send.settle(engine, start);
}

Time MessageHalf::launch(Time start) {
  // The first half to start moves the data: its rank may continue before the other half does.
  if (other_ != nullptr && !moved_) move_data();
  return start + cost_;
}

void MessageHalf::move_data() {
  MessageHalf& send = sends_ ? *this : *other_;
  MessageHalf& receive = sends_ ? *other_ : *this;
  send.moved_ = true;
  receive.moved_ = true;
  if (BufferWatch* const watch = group_->world().buffer_watch()) {
    move_watched(send, receive, *watch);
  } else {
    copy_data(send, receive);
  }
  if (receive.status_ != nullptr) {
    *receive.status_ = {send.member_, send.record_.tag, send.record_.count};
  }
  send.buffer_.reset();
  receive.buffer_.reset();
}

void MessageHalf::move_watched(MessageHalf& send, MessageHalf& receive, BufferWatch& watch) {
  const int from_rank = send.member_;  // All of the world: its numbers are theirs.
  const int to_rank = receive.member_;
  if (!send.buffered_) watch.moving(send, {&from_rank, 1});
  watch.moving(receive, {&to_rank, 1});
  copy_data(send, receive);
  if (!send.buffered_) watch.moved(send, {&from_rank, 1});
  watch.moved(receive, {&to_rank, 1});
}

void MessageHalf::copy_data(const MessageHalf& send, const MessageHalf& receive) {
  const Tensor& from = *send.buffer_;
  if (!from.has_data() || from.num_bytes() == 0) return;
  const Tensor arrives = as_moved(from, Carried::copies, send.member_);
  std::memmove(receive.buffer_->wire_data(), arrives.wire_data(),
               static_cast<std::size_t>(from.num_bytes()));
}

std::int64_t MessageHalf::trace_id() const {
  RollingHash hash;
  hash.add(group_->id());
  hash.add(std::int64_t{sends_ ? member_ : source_});
  hash.add(sequence_);
  return static_cast<std::int64_t>(hash.value() >> 1U);
}

std::vector<int> MessageHalf::missing() const {
  if (other_ != nullptr || buffered_) return {};
  if (record_.root != kAnySource) return {record_.root};
  return mailbox_->possible_senders(member_);
}

}  // namespace shardsim
