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
#include "backends/fiber/message_half.hpp"

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
  /// A half that asks for a message and waits for none: it is not posted, and has to be freed.
  MessageHalf& look(FiberGroup& group, const MessageHalf::Call& call, Time ready);
  /// The message there is now for a look; null if there is none. REQUIRES: all that is sent until
  /// `now` is posted.
  [[nodiscard]] const MessageHalf* found_by(MessageHalf& look, Time now);
  bool decide(std::optional<Time> next, std::optional<Time> look) override;

  /// Why a receive and a send that are left wait for each other, if their tags differ.
  [[nodiscard]] std::optional<Diagnosis> tag_mismatch() const;
  /// A message that no rank has taken; null if there is none.
  [[nodiscard]] const MessageHalf* left_over() const;
  /// All sends and receives that have no match.
  [[nodiscard]] std::vector<const MessageHalf*> unmatched() const;

  /// The number of this rank's next call of send, or recv, over all its channels.
  std::int64_t next_call(int rank, bool sends) {
    return inboxes_[static_cast<std::size_t>(rank)].num_calls[sends ? 1 : 0]++;
  }

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
    std::array<std::int64_t, 2> num_calls{};  // Receives, and sends.
  };
  // An inbox's `first` when it had its number; out of date once that has another.
  struct Ready {
    Time time;
    int receiver;
    std::uint64_t number;
  };
  [[nodiscard]] MessageHalf& reopened(FiberGroup& group, const MessageHalf::Call& call, Time ready);
  // When a receive that is there already learns of the message.
  [[nodiscard]] Time arrival_of(const MessageHalf& send, int receiver);
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
  [[nodiscard]] static MessageChoice choice_of(const Slot& slot);
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

inline void MessageHalf::note_wait() { mailbox_->waited(*this, other_); }

inline void MessageHalf::release() {
  in_use_ = false;
  if (is_probe_) return mailbox_->free(*this);
  // Either may still ask the other what it was: both go with the second.
  if (other_ == nullptr || other_->in_use_) return;
  mailbox_->free(*this);
  mailbox_->free(*other_);
}

}  // namespace shardsim
