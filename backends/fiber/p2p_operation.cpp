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

bool TransferOperation::join(bool sends, const CallRecord& record, const Tensor& buffer) {
  Side& mine = sides_[sends ? 0 : 1];
  const Side& other = sides_[sends ? 1 : 0];
  mine = {.posted = true, .record = record, .buffer = buffer};
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

Moved TransferOperation::moved(int member) const {
  if (source_ == destination_) return {};
  return one_message(member == source_, record_.count * size_of(record_.dtype));
}

void TransferOperation::count_off_ring(int member) const {
  if (source_ == destination_) return;
  group_->off_ring().add(member == source_, source_, destination_,
                         record_.count * size_of(record_.dtype));
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

void MessageHalf::open(FiberGroup& group, Mailbox& mailbox, Call call, const CallRecord& record) {
  reopen(group, call.number, record);
  mailbox_ = &mailbox;
  call_ = std::move(call);
  other_ = nullptr;
  buffered_ = false;
  moved_ = false;
  cost_ = Time();
  source_ = -1;
  sent_count_ = call_.buffer.numel();
  known.clear();
  expect(1);
}

bool MessageHalf::fits(const MessageHalf& send) const {
  return (call_.peer == kAnySource || call_.peer == send.call_.member) &&
         (call_.tag == kAnyTag || call_.tag == send.call_.tag);
}

void MessageHalf::set_buffered(Tensor copy, Time price) {
  buffered_ = true;
  cost_ = price;
  call_.buffer = std::move(copy);
}

void MessageHalf::match(Engine& engine, MessageHalf& send, Time start, Time price) {
  other_ = &send;
  send.other_ = this;
  source_ = send.call_.member;
  sent_count_ = send.call_.buffer.numel();
  cost_ = price;
  settle(engine, start);
  if (send.buffered_) return;
  send.cost_ = price;
  send.settle(engine, start);
}

Time MessageHalf::launch(Time start) {
  // The first half to start moves the data: its rank may continue before the other half does.
  if (other_ != nullptr) move_data();
  return start + cost_;
}

void MessageHalf::move_data() {
  MessageHalf& send = call_.sends ? *this : *other_;
  MessageHalf& receive = call_.sends ? *other_ : *this;
  if (receive.moved_) return;
  receive.moved_ = true;
  BufferWatch* const watch = group_->world().buffer_watch();
  const int from_rank = send.call_.member;  // All of the world: its numbers are theirs.
  const int to_rank = receive.call_.member;
  if (watch != nullptr) {
    if (!send.buffered_) watch->moving(send, {&from_rank, 1});
    watch->moving(receive, {&to_rank, 1});
  }
  const Tensor& from = send.call_.buffer;
  if (from.has_data() && from.num_bytes() > 0) {
    const Tensor arrives = as_moved(from, Carried::copies, from_rank);
    std::memmove(receive.call_.buffer.wire_data(), arrives.wire_data(),
                 static_cast<std::size_t>(from.num_bytes()));
  }
  if (receive.call_.status != nullptr) {
    *receive.call_.status = {send.call_.member, send.call_.tag, from.numel()};
  }
  if (watch != nullptr) {
    if (!send.buffered_) watch->moved(send, {&from_rank, 1});
    watch->moved(receive, {&to_rank, 1});
  }
  send.call_.buffer = {};
  receive.call_.buffer = {};
}

Moved MessageHalf::moved(int) const {
  if (to_itself()) return {};
  return one_message(call_.sends, sent_count_ * size_of(record_.dtype));
}

void MessageHalf::count_off_ring(int) const {
  if (to_itself()) return;
  group_->off_ring().add(call_.sends, call_.sends ? call_.member : source_,
                         call_.sends ? call_.peer : call_.member,
                         sent_count_ * size_of(record_.dtype));
}

std::int64_t MessageHalf::trace_id() const {
  RollingHash hash;
  hash.add(group_->id());
  hash.add(std::int64_t{call_.sends ? call_.member : source_});
  hash.add(sequence_);
  return static_cast<std::int64_t>(hash.value() >> 1U);
}

void MessageHalf::note_wait() { mailbox_->waited(*this, other_); }

void MessageHalf::release() {
  in_use_ = false;
  // Either may still ask the other what it was: both go with the second.
  if (other_ == nullptr || other_->in_use_) return;
  mailbox_->free(*this);
  mailbox_->free(*other_);
}

std::vector<int> MessageHalf::missing() const {
  if (other_ != nullptr || buffered_) return {};
  if (call_.peer != kAnySource) return {call_.peer};
  return mailbox_->possible_senders(call_.member);
}

}  // namespace shardsim
