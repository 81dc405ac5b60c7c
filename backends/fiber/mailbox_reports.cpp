#include <optional>
#include <string>
#include <vector>

#include "backends/fiber/fiber_world.hpp"
#include "backends/fiber/mailbox.hpp"

// A mailbox reports messages that do not fit their receives, and those that are left.
namespace shardsim {

namespace {

// A report about a receive and a send that do not fit each other; it has no code yet.
Diagnosis report_on(const MessageHalf& receive, const MessageHalf& send) {
  const int receiver = receive.member();
  const int sender = send.member();
  return {.group = receive.channel().name(),
          .members = ascending({receiver, sender}),
          .sequence = receive.sequence(),
          .sides = {receive.record().side_of({receiver}), send.record().side_of({sender})}};
}

}  // namespace

bool Mailbox::agree(const MessageHalf& receive, const MessageHalf& send) {
  const CallRecord& sent = send.record();
  const CallRecord& asked = receive.record();
  // Only who labels both ends says what belongs together.
  const bool labelled = *asked.label != '\0' && *sent.label != '\0';
  const bool labels = !labelled || same_text(asked.label, sent.label);
  const bool same = sent.dtype == asked.dtype && sent.traffic == asked.traffic;
  if (labels && same && sent.count <= asked.count) return true;
  Diagnosis diagnosis = report_on(receive, send);
  const std::string ways = " from rank " + std::to_string(send.member()) + " to rank " +
                           std::to_string(receive.member());
  if (!labels) {
    diagnosis.code = "P2P_AMBIGUOUS";
    diagnosis.summary = "a message \"" + std::string(sent.label) + "\"" + ways +
                        " is taken for \"" + asked.label + "\": their tags do not distinguish them";
    diagnosis.hint = "give messages that may be in flight together different tags";
  } else if (same) {
    diagnosis.code = "P2P_TRUNC";
    diagnosis.summary = "a message of " + std::to_string(sent.count) + " elements" + ways +
                        " does not fit the buffer of " + std::to_string(asked.count);
    diagnosis.hint = "receive into a buffer of at least the size that is sent";
  } else {
    diagnosis.code = "P2P_MISMATCH";
    diagnosis.summary = "a message" + ways + " is sent as one kind of data and received as another";
    diagnosis.hint = "send and receive with the same dtype and traffic";
  }
  diagnosis.time = max(send.ready(), receive.ready());
  world_.engine().fail(std::move(diagnosis), receive.member());
  return false;
}

std::vector<int> Mailbox::possible_senders(int member) const {
  std::vector<int> running;
  std::vector<int> others;
  for (int rank = 0; rank < static_cast<int>(inboxes_.size()); ++rank) {
    if (rank == member) continue;
    others.push_back(rank);
    if (!world_.engine().rank(rank).finished()) running.push_back(rank);
  }
  if (others.empty()) return {member};  // Nobody but itself.
  return running.empty() ? others : running;
}

std::optional<Diagnosis> Mailbox::tag_mismatch() const {
  // Both sides stand there for good: the receiver in this receive, the sender in its send or at its
  // end.
  const auto waits_in = [this](const MessageHalf& half) {
    return world_.engine().rank(half.member()).blocked_on() == &half;
  };
  for (const Inbox& inbox : inboxes_) {
    const MessageHalf* receive = inbox.receives.oldest;
    for (; receive != nullptr; receive = receive->behind) {
      if (receive->tag() == kAnyTag || !waits_in(*receive)) continue;
      const MessageHalf* const near = inbox.sends.find([&](const MessageHalf& send) {
        const bool from = receive->peer() == kAnySource || receive->peer() == send.member();
        return from && (waits_in(send) || world_.engine().rank(send.member()).finished());
      });
      if (near == nullptr) continue;
      Diagnosis diagnosis = report_on(*receive, *near);
      diagnosis.code = "P2P_TAG";
      diagnosis.summary =
          "rank " + std::to_string(receive->member()) + " waits for a message with tag " +
          std::to_string(receive->tag()) +
          (receive->peer() == kAnySource ? " from any rank"
                                         : " from rank " + std::to_string(receive->peer())) +
          "; the message that arrived has tag " + std::to_string(near->tag());
      diagnosis.hint = "send and receive with the same tag";
      return diagnosis;
    }
  }
  return std::nullopt;
}

std::vector<const MessageHalf*> Mailbox::unmatched() const {
  std::vector<const MessageHalf*> halves;
  for (const Inbox& inbox : inboxes_) {
    for (const Queue* queue : {&inbox.sends, &inbox.receives}) {
      for (const MessageHalf* half = queue->oldest; half != nullptr; half = half->behind) {
        halves.push_back(half);
      }
    }
  }
  return halves;
}

const MessageHalf* Mailbox::left_over() const {
  for (const Inbox& inbox : inboxes_) {
    if (inbox.sends.oldest != nullptr) return inbox.sends.oldest;
  }
  return nullptr;
}

}  // namespace shardsim
