#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/fiber/fiber_operation.hpp"
#include "backends/tagged_messages.hpp"

// Point-to-point: transfers between two members, batches of them, and halves of tagged messages.
namespace shardsim {

class BufferWatch;
class Mailbox;

/// An operation that is one message, or one end of one.
class SingleMessage : public FiberOperation {
 public:
  [[nodiscard]] bool is_transfer() const final { return true; }
  [[nodiscard]] Moved moved(int member) const final;
  void count_off_ring(int member) const final;
};

/// One message. Rendezvous: it starts when both sides have posted it and both streams are free.
class TransferOperation final : public SingleMessage {
 public:
  void open(FiberGroup& group, std::int64_t sequence, int source, int destination);
  /// One side joins with its call and buffer. False if it does not fit the other side's.
  /// `number`: of this send or receive among those of its rank in the group.
  bool join(bool sends, const CallRecord& record, const Tensor& buffer, std::int64_t number);

  [[nodiscard]] int source() const { return source_; }
  [[nodiscard]] int destination() const { return destination_; }
  [[nodiscard]] bool posted(bool sends) const { return sides_[sends ? 0 : 1].posted; }
  [[nodiscard]] const CallRecord& side(bool sends) const { return sides_[sends ? 0 : 1].record; }
  [[nodiscard]] std::int64_t number(bool sends) const { return sides_[sends ? 0 : 1].number; }
  [[nodiscard]] bool mismatched() const { return mismatched_; }
  /// The sender does not wait for the receiver: the message was priced and copied when it left.
  void set_buffered() { buffered_ = true; }

  [[nodiscard]] std::optional<MessageEnd> message_end(int member) const override;
  [[nodiscard]] const CallRecord& record_of(int member) const override {
    return side(member == source_);
  }
  [[nodiscard]] std::int64_t trace_id() const override;
  void release() override;
  [[nodiscard]] std::vector<int> missing() const override { return sides_that(false); }
  [[nodiscard]] std::vector<int> arrived() const override { return sides_that(true); }

 protected:
  Time launch(Time start) override;

 private:
  struct Side {
    bool posted = false;
    std::int64_t number = 0;
    CallRecord record;
    Tensor buffer;
  };
  [[nodiscard]] std::vector<int> sides_that(bool have_posted) const;

  int source_ = 0;
  int destination_ = 0;
  int num_unwaited_ = 0;
  bool mismatched_ = false;
  bool buffered_ = false;
  Side sides_[2];  // Sender, receiver.
};

/// Work of one member that ends when all its parts have: a batch, or the local half of a buffered
/// send.
class JoinOperation final : public FiberOperation {
 public:
  void open(FiberGroup& group, std::int64_t sequence, int member, const CallRecord& record);
  void add_part(FiberOperation& part) { parts_.push_back(&part); }
  /// A time to spend of its own: what a buffered send costs its sender.
  void set_cost(Time cost) { cost_ = cost; }
  /// The message it sends besides its parts: a buffered one.
  void set_sent(int peer, std::int64_t bytes) {
    peer_ = peer;
    sent_ = bytes;
  }
  /// The one message it is the sender's half of.
  void set_trace_id(std::int64_t id) { trace_id_ = id; }

  [[nodiscard]] bool is_transfer() const override { return true; }
  [[nodiscard]] Moved moved(int member) const override;
  void count_off_ring(int member) const override;
  [[nodiscard]] std::int64_t trace_id() const override { return trace_id_; }
  void release() override;
  [[nodiscard]] std::vector<int> missing() const override { return {}; }
  [[nodiscard]] std::vector<int> arrived() const override { return {member_}; }

 protected:
  Time launch(Time start) override;

 private:
  int member_ = 0;
  Time cost_;
  int peer_ = -1;  // Peer of the buffered message; -1: none.
  std::int64_t sent_ = 0;
  std::int64_t trace_id_ = -1;  // A batch is several communications.
  std::vector<FiberOperation*> parts_;
};

/// A send or a receive with a tag: each an operation of its own, which starts when a match has been
/// found for it (a buffered send at once).
class alignas(64) MessageHalf final : public SingleMessage {
 public:
  /// By reference, and written into the half's record once: thousands of ranks post millions.
  struct Call {
    bool sends = false;
    int member = 0;
    int peer = 0;  ///< kAnySource: a receive from anyone.
    int tag = 0;
    const Tensor& buffer;
    MessageStatus* status = nullptr;
    const CallOptions& options;
    CallSite site;
  };
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
    return (record_.root == kAnySource || record_.root == send.member_) &&
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

  [[nodiscard]] std::optional<MessageEnd> message_end(int /*member*/) const override {
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
  Mailbox* mailbox_ = nullptr;
  MessageStatus* status_ = nullptr;
  std::optional<Tensor> buffer_;  // Until it has moved.
  std::vector<std::int32_t> known_;
};

}  // namespace shardsim
