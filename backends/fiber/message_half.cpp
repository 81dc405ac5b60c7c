#include <cstring>
#include <utility>

#include "backends/fiber/fiber_watch.hpp"
#include "backends/fiber/fiber_world.hpp"
#include "backends/fiber/mailbox.hpp"
#include "backends/last_bit_errors.hpp"

namespace shardsim {

void MessageHalf::open(FiberGroup& group, Mailbox& mailbox, Call call) {
  recycle();
  group_ = &group;
  mailbox_ = &mailbox;
  call_ = std::move(call);
  sequence_ = call_.number;
  record_ = call_.record;
  in_use_ = true;
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

FiberOperation::Moved MessageHalf::moved(int) const {
  if (call_.sends ? call_.peer == call_.member : source_ == call_.member) return {};
  Traffic traffic;
  const std::int64_t bytes = sent_count_ * size_of(record_.dtype);
  if (call_.sends) {
    traffic.sent = bytes;
    traffic.messages = 1;
  } else {
    traffic.received = bytes;
  }
  return {.payload = traffic, .padding_sent = 0};
}

void MessageHalf::count_off_ring(int) const {
  const std::int64_t bytes = sent_count_ * size_of(record_.dtype);
  if (call_.sends) {
    if (call_.peer != call_.member) group_->off_ring().send(call_.member, call_.peer, bytes);
  } else if (source_ != call_.member) {
    group_->off_ring().receive(source_, call_.member, bytes);
  }
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
