#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "backends/fiber/p2p_operation.hpp"
#include "backends/tagged_messages.hpp"

// One end of a tagged message.
namespace shardsim {

class BufferWatch;
class FiberGroup;
class Mailbox;

/// A send or a receive with a tag: each an operation of its own, which starts when a match has been
/// found for it (a buffered send at once).
class alignas(64) MessageHalf final : public SingleMessage {
 public:
  /// By reference, and written into the half's record once: thousands of ranks post millions.
  struct Call {
    bool sends = false;
    bool probes = false;
    const FiberGroup* channel = nullptr;
    int member = 0;  ///< In the world, as `peer`.
    int peer = 0;    ///< kAnySource: a receive from anyone.
    int tag = 0;
    const Tensor& buffer;
    MessageStatus* status = nullptr;
    const CallOptions& options;
    CallSite site;
  };
  /// A receive that takes no message.
  [[nodiscard]] bool is_probe() const { return is_probe_; }
  /// `number`: among its rank's sends, or receives. It cannot start before `ready`.
  inline void open(FiberGroup& group, Mailbox& mailbox, const Call& call, Time ready,
                   std::int64_t number);

  /// It will soon be opened: its lines are fetched into the caches meanwhile.
  void fetch() const {
    const char* const first = reinterpret_cast<const char*>(this);
    for (std::size_t at = 0; at < sizeof(*this); at += 64) __builtin_prefetch(first + at, 1);
  }

  [[nodiscard]] bool sends() const { return sends_; }
  [[nodiscard]] int member() const { return member_; }
  [[nodiscard]] int peer() const { return record_.root; }
  [[nodiscard]] int tag() const { return record_.tag; }
  [[nodiscard]] std::int64_t number() const { return sequence_; }
  [[nodiscard]] Time ready() const { return ready_; }
  [[nodiscard]] std::int64_t num_bytes() const { return record_.count * size_of(record_.dtype); }
  [[nodiscard]] bool is_open() const {
    return !sends_ && (record_.root == kAnySource || record_.tag == kAnyTag);
  }
  /// Whether this receive may take the message of that send.
  [[nodiscard]] bool fits(const MessageHalf& send) const {
    return channel_ == send.channel_ &&
           (record_.root == kAnySource || record_.root == send.member_) &&
           (record_.tag == kAnyTag || record_.tag == send.record_.tag);
  }
  /// The sender continues without its receiver, and the message takes `price`: it leaves a copy.
  void set_buffered(Time price);
  [[nodiscard]] bool is_buffered() const { return buffered_; }
  /// Whether the program asks which message it has taken.
  [[nodiscard]] bool has_status() const { return status_ != nullptr; }
  [[nodiscard]] Time price() const { return cost_; }
  /// A receive has its message: both start, and take `price`.
  void match(Engine& engine, MessageHalf& send, Time start, Time price);
  /// A probe has found a message, which has been there since `arrival`.
  void find(Engine& engine, MessageHalf& send, Time arrival);
  /// The group whose message it is, where it is not that of all ranks.
  [[nodiscard]] const FiberGroup& channel() const { return *channel_; }
  /// The message, as a receive of this channel sees it.
  [[nodiscard]] MessageStatus status() const;

  [[nodiscard]] std::optional<MessageEnd> message_end(int /*member*/) const override {
    if (is_probe_) return MessageEnd{.from = member_, .to = member_};
    return MessageEnd{.sends = sends_,
                      .from = sends_ ? member_ : source_,
                      .to = sends_ ? record_.root : member_,
                      .bytes = sent_count_ * size_of(record_.dtype)};
  }
  [[nodiscard]] std::int64_t trace_id() const override;
  inline void release() override;
  inline void note_wait() override;
  [[nodiscard]] std::vector<int> missing() const override;
  [[nodiscard]] std::vector<int> arrived() const override { return {member_}; }

  // For the mailbox.
  /// SentMessage::known of its rank when this was posted.
  [[nodiscard]] std::vector<std::int32_t>& known() { return known_; }
  [[nodiscard]] const std::vector<std::int32_t>& known() const { return known_; }
  // Its neighbours among those that wait at a rank.
  MessageHalf* before = nullptr;
  MessageHalf* behind = nullptr;

 protected:
  Time launch(Time start) override;

 private:
  void move_data();
  static void move_watched(MessageHalf& send, MessageHalf& receive, BufferWatch& watch);
  static void copy_data(const MessageHalf& send, const MessageHalf& receive);

  // First come members that both ranks look at, in one line of the caches.
  MessageHalf* other_ = nullptr;
  Time ready_;
  Time cost_;
  std::int64_t sent_count_ = 0;
  int member_ = 0;
  int source_ = -1;
  bool sends_ = false;
  bool buffered_ = false;
  bool moved_ = false;
  bool is_probe_ = false;
  const FiberGroup* channel_ = nullptr;
  Mailbox* mailbox_ = nullptr;
  MessageStatus* status_ = nullptr;
  std::optional<Tensor> buffer_;  // Until it has moved.
  std::vector<std::int32_t> known_;
};

}  // namespace shardsim
