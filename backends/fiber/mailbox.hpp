#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/kernel/diagnosis.hpp"
#include "sim/kernel/engine.hpp"

#include "backends/fiber/fiber_communicator.hpp"
#include "backends/fiber/fiber_operation.hpp"
#include "backends/fiber/p2p_operation.hpp"
#include "backends/tagged_messages.hpp"

// Tagged messages in memory. A receive that names its sender and its tag can take one message, and
// gets it when both are posted. An open receive is matched late, when no rank can continue. Then
// all messages are posted that do not depend on it. The explorer of schedules, or virtual time,
// chooses the message for a receive that names no sender, or no tag.
namespace shardsim {

class FiberWorld;

/// A message between two ranks, the same in every run that has come to it the same way.
struct MessageName {
  int source = 0;
  std::int64_t number = 0;  ///< Among the messages of its source.

  friend auto operator<=>(const MessageName&, const MessageName&) = default;
};

struct SentMessage {
  MessageName name;
  int destination = 0;
  int tag = 0;
  /// By receiver: how many of its open receives it had waited for before this one was sent, as far
  /// as its sender could know; 0 for those behind the end.
  std::vector<std::int32_t> known;

  [[nodiscard]] std::int32_t known_of(int rank) const {
    const auto place = static_cast<std::size_t>(rank);
    return place < known.size() ? known[place] : 0;
  }
};

/// A message and an open receive that may take it now.
struct MessageChoice {
  MessageName message;
  int receiver = 0;
  std::int64_t receive = 0;  ///< Number of the receive among its rank's.
  int source = 0;            ///< As the receive names it, with kAnySource and kAnyTag.
  int tag = 0;
  Time time;  ///< When it could start.
  CallSite site;
};

class MessageChooser {
 public:
  virtual ~MessageChooser() = default;
  virtual void sent(const SentMessage& /*message*/) {}
  /// `receiver` has waited for an open receive: what it took is known from here on.
  virtual void waited(int /*receiver*/, std::int64_t /*receive*/) {}
  /// Asked when no rank can continue and nothing else can end. One of `candidates`, of which there
  /// is at least one; by receiver, receive and message.
  virtual std::size_t choose(std::span<const MessageChoice> candidates) = 0;
};

class Mailbox final : public Arbiter {
 public:
  explicit Mailbox(FiberWorld& world);

  /// Posts a half; it starts when its match is found.
  MessageHalf& post(FiberGroup& group, const MessageHalf::Call& call, Time ready);
  bool decide(std::optional<Time> next, std::optional<Time> look) override;

  /// Why a receive and a send that are left wait for each other, if their tags differ.
  [[nodiscard]] std::optional<Diagnosis> tag_mismatch() const;
  /// A message that no rank has taken; null if there is none.
  [[nodiscard]] const MessageHalf* left_over() const;
  /// All sends and receives that have no match.
  [[nodiscard]] std::vector<const MessageHalf*> unmatched() const;

  // For halves.
  void waited(const MessageHalf& half, const MessageHalf* other);
  void free(MessageHalf& half) { half.behind = std::exchange(free_, &half); }
  /// Ranks that may still send.
  [[nodiscard]] std::vector<int> possible_senders(int member) const;

 private:
  // A receive and a message that it may take.
  struct Slot {
    MessageHalf* receive = nullptr;
    MessageHalf* send = nullptr;
    [[nodiscard]] bool exists() const { return receive != nullptr; }
    [[nodiscard]] Time time() const { return max(send->ready(), receive->ready()); }
  };
  // Halves as posted, linked through themselves.
  struct Queue {
    MessageHalf* oldest = nullptr;
    MessageHalf* newest = nullptr;
    void push(MessageHalf& half);
    void remove(MessageHalf& half);
    // The oldest for which `is_meant` holds, of those before `end`; null if there is none.
    template <class Condition>
    [[nodiscard]] MessageHalf* find(const Condition& is_meant,
                                    const MessageHalf* end = nullptr) const {
      MessageHalf* half = oldest;
      while (half != nullptr && half != end && !is_meant(*half)) half = half->behind;
      return half == end ? nullptr : half;
    }
  };
  // The halves that wait at one rank, not matched, and how many that rank has posted.
  struct Inbox {
    Queue sends;
    Queue receives;
    // The first in virtual time of its open receives that may take a message; of equals, the one
    // posted first.
    Slot first;
    std::uint64_t num_firsts = 0;
    std::int64_t num_sends = 0;
    std::int64_t num_receives = 0;
  };
  // An inbox's `first` when it had its number; out of date once that has another.
  struct Ready {
    Time time;
    int receiver;
    std::uint64_t number;
  };
  void send_ahead(MessageHalf& half);
  void place_send(Inbox& inbox, MessageHalf& send);
  void place_receive(Inbox& inbox, MessageHalf& receive);
  void offer(Inbox& inbox, Slot slot);
  void set_first(Inbox& inbox, Slot slot);
  void take(const Slot& slot);
  void find_candidates(const Inbox& inbox);
  void add_candidates(const Inbox& inbox, MessageHalf& receive);
  [[nodiscard]] static bool is_kept(const Inbox& inbox, const MessageHalf& send,
                                    const MessageHalf& receive);
  [[nodiscard]] Slot first_ready();
  [[nodiscard]] Slot chosen_by(MessageChooser& chooser);
  void match(MessageHalf& receive, MessageHalf& send);
  [[nodiscard]] bool agree(const MessageHalf& receive, const MessageHalf& send);

  FiberWorld& world_;
  std::deque<MessageHalf> halves_;
  MessageHalf* free_ = nullptr;      // Linked.
  std::vector<Inbox> inboxes_;       // By rank.
  std::vector<Ready> ready_;         // A heap, the earliest on top.
  std::vector<Slot> candidates_;     // Pairs found by the last search.
  std::vector<std::uint64_t> seen_;  // By sender, the last search that met a message of it.
  std::uint64_t num_searches_ = 0;
  std::vector<std::vector<std::int32_t>> known_;  // By rank: SentMessage::known. Empty: unasked.
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
  Work post(const MessageHalf::Call& call);
  Work post_half(const MessageHalf::Call& call);
  // Its buffer is undefined, or its peer or tag out of range.
  [[noreturn]] void refuse(const MessageHalf::Call& call) const;

  std::unique_ptr<TaggedStream> stream_;
  std::array<std::int64_t, 2> num_halves_{};  // Receives, and sends.
};

inline void MessageHalf::note_wait() { mailbox_->waited(*this, other_); }

inline void MessageHalf::release() {
  in_use_ = false;
  // Either may still ask the other what it was: both go with the second.
  if (other_ == nullptr || other_->in_use_) return;
  mailbox_->free(*this);
  mailbox_->free(*other_);
}

}  // namespace shardsim
