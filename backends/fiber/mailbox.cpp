#include "backends/fiber/mailbox.hpp"

#include <algorithm>
#include <utility>

#include "backends/fiber/fiber_world.hpp"

namespace shardsim {

namespace {

// Counts behind the end are 0.
void learn(std::vector<std::int32_t>& known, const std::vector<std::int32_t>& other) {
  if (known.size() < other.size()) known.resize(other.size(), 0);
  for (std::size_t i = 0; i < other.size(); ++i) known[i] = std::max(known[i], other[i]);
}

// Heap order: the earliest time on top; among equals, the lowest receiver.
constexpr auto kLater = [](const auto& a, const auto& b) {
  return a.time != b.time ? a.time > b.time : a.receiver > b.receiver;
};

// A report about a receive and a send that do not fit each other; it has no code yet.
Diagnosis report_on(const MessageHalf& receive, const MessageHalf& send) {
  const int receiver = receive.member();
  const int sender = send.member();
  return {.group = receive.group()->name(),
          .members = ascending({receiver, sender}),
          .sequence = receive.sequence(),
          .sides = {receive.record().side_of({receiver}), send.record().side_of({sender})}};
}

}  // namespace

Mailbox::Mailbox(FiberWorld& world) : world_(world) {
  const auto ranks = static_cast<std::size_t>(world.engine().num_ranks());
  inboxes_.resize(ranks);
  seen_.resize(ranks, 0);
  if (world.options().chooser != nullptr) {
    known_.resize(ranks);
  }
}

// --- Posting -----------------------------------------------------------------------------------

// Field by field: a record that is copied just after it was written stalls on each narrow store.
inline void MessageHalf::open(FiberGroup& group, Mailbox& mailbox, const Call& call, Time ready,
                              std::int64_t number) {
  reopen(group, number);
  record_.name = call.sends ? "send" : "recv";
  record_.dtype = call.buffer.dtype();
  record_.root = call.peer;
  record_.tag = call.tag;
  record_.count = call.buffer.numel();
  record_.label = call.options.label;
  record_.traffic = call.options.traffic;
  record_.site.file = call.site.file;
  record_.site.line = call.site.line;
  record_.site.function = call.site.function;
  mailbox_ = &mailbox;
  other_ = nullptr;
  status_ = call.status;
  buffer_.emplace(call.buffer);
  ready_ = ready;
  cost_ = Time();
  sent_count_ = record_.count;
  member_ = call.member;
  source_ = -1;
  sends_ = call.sends;
  buffered_ = false;
  moved_ = false;
  known_.clear();
  expect(1);
}

MessageHalf& Mailbox::post(FiberGroup& group, const MessageHalf::Call& call, Time ready) {
  Inbox& own = inboxes_[static_cast<std::size_t>(call.member)];
  MessageHalf* const half = free_ == nullptr ? &halves_.emplace_back() : free_;
  free_ = half->behind;
  if (free_ != nullptr) free_->fetch();
  half->open(group, *this, call, ready, call.sends ? own.num_sends++ : own.num_receives++);
  if (!known_.empty()) half->known() = known_[static_cast<std::size_t>(call.member)];
  if (!call.sends) {
    place_receive(own, *half);
    return *half;
  }
  if (MessageChooser* const chooser = world_.options().chooser) {
    chooser->sent({.name = {call.member, half->number()},
                   .destination = call.peer,
                   .tag = call.tag,
                   .known = half->known()});
  }
  if (world_.sends_ahead(call.member, half->number())) send_ahead(*half);
  place_send(inboxes_[static_cast<std::size_t>(call.peer)], *half);
  return *half;
}

void Mailbox::send_ahead(MessageHalf& half) {
  half.set_buffered(
      world_.network().transfer(half.member(), half.peer(), half.num_bytes(), half.ready()));
  half.settle(world_.engine(), half.ready());
}

// --- Matching ----------------------------------------------------------------------------------

void Mailbox::Queue::push(MessageHalf& half) {
  half.before = newest;
  half.behind = nullptr;
  (newest == nullptr ? oldest : newest->behind) = &half;
  newest = &half;
}

void Mailbox::Queue::remove(MessageHalf& half) {
  (half.before == nullptr ? oldest : half.before->behind) = half.behind;
  (half.behind == nullptr ? newest : half.behind->before) = half.before;
}

// A message that an earlier receive may take, too, is not for a later one while that is open. If
// the receive may take an older message of its sender, that one is before this one in time as well.
void Mailbox::place_send(Inbox& inbox, MessageHalf& send) {
  MessageHalf* const receive =
      inbox.receives.find([&](const MessageHalf& waiting) { return waiting.fits(send); });
  inbox.sends.push(send);
  if (receive != nullptr) offer(inbox, {receive, &send});
}

// A receive that names its message asks for the oldest one only.
void Mailbox::place_receive(Inbox& inbox, MessageHalf& receive) {
  inbox.receives.push(receive);
  if (receive.is_open()) {
    ++num_choices_;  // Until it has a message.
    candidates_.clear();
    add_candidates(inbox, receive);
    for (const Slot& candidate : candidates_) offer(inbox, candidate);
    return;
  }
  MessageHalf* const send =
      inbox.sends.find([&](const MessageHalf& waiting) { return receive.fits(waiting); });
  if (send != nullptr && !is_kept(inbox, *send, receive)) match(receive, *send);
}

// Whether a message is kept for a receive that was posted before this one.
bool Mailbox::is_kept(const Inbox& inbox, const MessageHalf& send, const MessageHalf& receive) {
  const auto fits = [&](const MessageHalf& earlier) { return earlier.fits(send); };
  return inbox.receives.find(fits, &receive) != nullptr;
}

// A receive that names its message takes it at once; an open one waits until nothing else can end.
void Mailbox::offer(Inbox& inbox, Slot slot) {
  if (!slot.receive->is_open()) {
    match(*slot.receive, *slot.send);
    return;
  }
  const auto is_before = [](const Slot& a, const Slot& b) {
    return a.time() != b.time() ? a.time() < b.time() : a.receive->number() < b.receive->number();
  };
  if (world_.options().chooser != nullptr) return;  // It sees all receives, when it is asked.
  if (!inbox.first.exists() || is_before(slot, inbox.first)) set_first(inbox, slot);
}

void Mailbox::set_first(Inbox& inbox, Slot slot) {
  inbox.first = slot;
  ++inbox.num_firsts;
  if (!slot.exists()) return;
  ready_.push_back({slot.time(), slot.receive->member(), inbox.num_firsts});
  std::push_heap(ready_.begin(), ready_.end(), kLater);
}

// The receive with the oldest message of each sender that it may take.
void Mailbox::add_candidates(const Inbox& inbox, MessageHalf& receive) {
  ++num_searches_;
  for (MessageHalf* send = inbox.sends.oldest; send != nullptr; send = send->behind) {
    std::uint64_t& last_search = seen_[static_cast<std::size_t>(send->member())];
    if (!receive.fits(*send) || last_search == num_searches_) continue;
    last_search = num_searches_;
    if (!is_kept(inbox, *send, receive)) candidates_.push_back({&receive, send});
  }
}

void Mailbox::find_candidates(const Inbox& inbox) {
  candidates_.clear();
  if (inbox.sends.oldest == nullptr) return;
  MessageHalf* receive = inbox.receives.oldest;
  for (; receive != nullptr; receive = receive->behind) add_candidates(inbox, *receive);
}

// An open receive takes a message. Later receives may take what was kept for it.
void Mailbox::take(const Slot& slot) {
  Inbox& inbox = inboxes_[static_cast<std::size_t>(slot.receive->member())];
  match(*slot.receive, *slot.send);
  set_first(inbox, {});
  while (true) {
    find_candidates(inbox);
    const auto named = std::find_if(candidates_.begin(), candidates_.end(),
                                    [](const Slot& each) { return !each.receive->is_open(); });
    if (named == candidates_.end()) break;
    match(*named->receive, *named->send);
  }
  for (const Slot& candidate : candidates_) offer(inbox, candidate);
}

Mailbox::Slot Mailbox::first_ready() {
  while (!ready_.empty()) {
    const Ready& top = ready_.front();
    const Inbox& inbox = inboxes_[static_cast<std::size_t>(top.receiver)];
    if (inbox.num_firsts == top.number) return inbox.first;
    std::pop_heap(ready_.begin(), ready_.end(), kLater);
    ready_.pop_back();
  }
  return {};
}

Mailbox::Slot Mailbox::chosen_by(MessageChooser& chooser) {
  std::vector<Slot> slots;
  std::vector<MessageChoice> choices;
  for (const Inbox& inbox : inboxes_) {
    find_candidates(inbox);
    for (const Slot& slot : candidates_) {
      const MessageHalf& receive = *slot.receive;
      slots.push_back(slot);
      choices.push_back({.message = {slot.send->member(), slot.send->number()},
                         .receiver = receive.member(),
                         .receive = receive.number(),
                         .source = receive.peer(),
                         .tag = receive.tag(),
                         .time = slot.time(),
                         .site = receive.record().site});
    }
  }
  return choices.empty() ? Slot() : slots[chooser.choose(choices)];
}

bool Mailbox::decide(std::optional<Time> next, std::optional<Time> look) {
  MessageChooser* const chooser = world_.options().chooser;
  // All that can end without a decision ends first: then every message is there. A rank that looks
  // for what is not decided would look for ever.
  if (chooser != nullptr && next) return false;
  const Slot slot = chooser != nullptr ? chosen_by(*chooser) : first_ready();
  if (!slot.exists() || (next && *next < slot.time())) return false;
  if (chooser == nullptr && look && *look < slot.time()) return false;
  take(slot);
  return true;
}

void Mailbox::match(MessageHalf& receive, MessageHalf& send) {
  Inbox& inbox = inboxes_[static_cast<std::size_t>(receive.member())];
  inbox.receives.remove(receive);
  inbox.sends.remove(send);
  if (receive.is_open()) --num_choices_;
  if (!agree(receive, send)) return;
  const Time arrival = send.ready() + (send.is_buffered() ? send.price() : Time());
  const Time start = max(receive.ready(), arrival);
  const Time price = send.is_buffered() ? Time()
                                        : world_.network().transfer(send.member(), receive.member(),
                                                                    send.num_bytes(), start);
  receive.match(world_.engine(), send, start, price);
}

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

// A rank's knowledge of matches: its own waits, in order, and the knowledge of ranks that told it.
// A rendezvous sender knows that the receive was posted, and what its rank knew then.
void Mailbox::waited(const MessageHalf& half, const MessageHalf* other) {
  if (known_.empty() || other == nullptr) return;
  const auto rank = static_cast<std::size_t>(half.member());
  // A buffered send ends whether it was taken or not: that tells nothing.
  if (half.sends() && half.is_buffered()) return;
  learn(known_[rank], other->known());
  if (half.sends() || !half.is_open()) return;
  if (known_[rank].size() <= rank) known_[rank].resize(rank + 1, 0);
  ++known_[rank][rank];
  world_.options().chooser->waited(half.member(), half.number());
}

// --- What is left ------------------------------------------------------------------------------

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
