#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "sim/kernel/diagnosis.hpp"
#include "sim/kernel/engine.hpp"

#include "backends/fiber/fiber_operation.hpp"
#include "backends/fiber/fiber_stream.hpp"
#include "backends/fiber/message_chooser.hpp"
#include "backends/tagged_messages.hpp"

// Tagged messages in memory. A receive that names its sender and its tag can take one message, and
// gets it when both are posted. An open receive is matched late, when no rank can continue.
// Then all messages are posted that do not depend on it.
namespace shardsim {

class FiberWorld;
class Mailbox;

/// A send or a receive with a tag: each an operation of its own, which starts when a match has been
/// found for it (a buffered send at once).
class MessageHalf final : public FiberOperation {
 public:
  struct Call {
    bool sends = false;
    int member = 0;
    int peer = 0;  ///< kAnySource: a receive from anyone.
    int tag = 0;
    Tensor buffer;
    MessageStatus* status = nullptr;
    CallRecord record;
    Time ready;
    std::int64_t number = 0;  ///< Among its rank's sends, or receives.
  };
  void open(FiberGroup& group, Mailbox& mailbox, Call call);
  [[nodiscard]] const Call& call() const { return call_; }
  [[nodiscard]] bool is_open() const {
    return !call_.sends && (call_.peer == kAnySource || call_.tag == kAnyTag);
  }
  /// Whether this receive may take the message of that send.
  [[nodiscard]] bool fits(const MessageHalf& send) const;
  /// The sender continues without its receiver; `copy`: of its data.
  void set_buffered(Tensor copy, Time price);
  [[nodiscard]] bool is_buffered() const { return buffered_; }
  [[nodiscard]] Time price() const { return cost_; }
  /// A receive has its message: both start, and take `price`.
  void match(Engine& engine, MessageHalf& send, Time start, Time price);
  [[nodiscard]] bool is_matched() const { return other_ != nullptr; }

  [[nodiscard]] bool is_transfer() const override { return true; }
  [[nodiscard]] Moved moved(int member) const override;
  void count_off_ring(int member) const override;
  [[nodiscard]] std::int64_t trace_id() const override;
  void release() override;
  void note_wait() override;
  [[nodiscard]] std::vector<int> missing() const override;
  [[nodiscard]] std::vector<int> arrived() const override { return {call_.member}; }

  // For the mailbox: who knew what when this was posted.
  std::vector<std::int32_t> known;

 protected:
  Time launch(Time start) override;

 private:
  void move_data();

  Mailbox* mailbox_ = nullptr;
  Call call_;
  MessageHalf* other_ = nullptr;
  bool buffered_ = false;
  bool moved_ = false;
  Time cost_;
  int source_ = -1;
  std::int64_t sent_count_ = 0;
};

class Mailbox final : public Arbiter {
 public:
  explicit Mailbox(FiberWorld& world);

  /// Posts a half; it starts when its match is found.
  MessageHalf& post(FiberGroup& group, MessageHalf::Call call);
  bool decide(std::optional<Time> next) override;

  /// Why a receive and a send that are left wait for each other, if their tags differ.
  [[nodiscard]] std::optional<Diagnosis> tag_mismatch() const;
  /// A message that no rank has taken; null if there is none.
  [[nodiscard]] const MessageHalf* left_over() const;

  // For halves.
  void waited(const MessageHalf& half, const MessageHalf* other);
  void free(MessageHalf& half) { free_.push_back(&half); }
  /// Ranks that may still send.
  [[nodiscard]] std::vector<int> possible_senders(int member) const;

 private:
  struct Slot {
    MessageHalf* receive;
    MessageHalf* send;
  };
  [[nodiscard]] bool draws_buffered(int rank, std::int64_t number) const;
  void send_ahead(MessageHalf& half);
  void match_named(int receiver);
  [[nodiscard]] std::vector<Slot> candidates_of(int receiver) const;
  void match(MessageHalf& receive, MessageHalf& send);
  [[nodiscard]] bool agree(const MessageHalf& receive, const MessageHalf& send);

  FiberWorld& world_;
  std::deque<MessageHalf> halves_;
  std::vector<MessageHalf*> free_;
  std::vector<std::vector<MessageHalf*>> sends_;     // By destination, not matched, as posted.
  std::vector<std::vector<MessageHalf*>> receives_;  // By receiver, not matched, as posted.
  std::vector<std::int64_t> num_sends_;              // By rank.
  std::vector<std::int64_t> num_receives_;
  std::vector<std::vector<std::int32_t>> known_;  // By rank: SentMessage::known. Empty: unasked.
  int num_open_ = 0;                              // Open receives without a message.
};

/// A rank's end.
class FiberTaggedMessages final : public TaggedMessages {
 public:
  FiberTaggedMessages(FiberGroup& everyone, int member);
  ~FiberTaggedMessages() override;

  [[nodiscard]] int rank() const override { return stream_->member(); }
  [[nodiscard]] int size() const override;
  Work send(const Tensor& buffer, int peer, int tag, const CallOptions& options,
            CallSite site) override;
  Work recv(const Tensor& buffer, int source, int tag, MessageStatus* status,
            const CallOptions& options, CallSite site) override;

 private:
  Work post(MessageHalf::Call call);
  void check(const MessageHalf::Call& call) const;
  [[noreturn]] void refuse(const MessageHalf::Call& call, const std::string& what,
                           const std::string& hint) const;

  std::unique_ptr<FiberStream> stream_;
};

}  // namespace shardsim
