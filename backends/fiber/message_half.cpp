#include "backends/fiber/message_half.hpp"

#include <cstring>

#include "backends/fiber/fiber_watch.hpp"
#include "backends/fiber/fiber_world.hpp"
#include "backends/fiber/mailbox.hpp"
#include "backends/last_bit_errors.hpp"

namespace shardsim {

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

void MessageHalf::find(Engine& engine, MessageHalf& send, Time arrival) {
  other_ = &send;
  source_ = send.member_;
  sent_count_ = send.record_.count;
  moved_ = true;
  *status_ = send.status();
  status_->count = send.num_bytes();  // Only the program knows the type.
  settle(engine, max(ready_, arrival));
}

MessageStatus MessageHalf::status() const {
  return {channel_->member_of(member_), record_.tag, record_.count};
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
    *receive.status_ = send.status();
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
