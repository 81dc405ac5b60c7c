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
  is_probe_ = call.probes;
  record_.name = call.sends ? "send" : call.probes ? "probe" : "recv";
  record_.dtype = call.probes ? DType::int8 : call.buffer.dtype();
  record_.root = call.peer;
  record_.tag = call.tag;
  record_.count = call.probes ? 0 : call.buffer.numel();
  record_.label = call.options.label;
  record_.traffic = call.options.traffic;
  record_.site.file = call.site.file;
  record_.site.line = call.site.line;
  record_.site.function = call.site.function;
  mailbox_ = &mailbox;
  channel_ = call.channel;
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

MessageHalf& Mailbox::reopened(FiberGroup& group, const MessageHalf::Call& call, Time ready) {
  Inbox& own = inboxes_[static_cast<std::size_t>(call.member)];
  MessageHalf* const half = free_ == nullptr ? &halves_.emplace_back() : free_;
  free_ = half->behind;
  if (free_ != nullptr) free_->fetch();
  half->open(group, *this, call, ready, call.sends ? own.num_sends++ : own.num_receives++);
  if (!known_.empty()) half->known() = known_[static_cast<std::size_t>(call.member)];
  return *half;
}

MessageHalf& Mailbox::post(FiberGroup& group, const MessageHalf::Call& call, Time ready) {
  MessageHalf* const half = &reopened(group, call, ready);
  if (!call.sends) {
    place_receive(inboxes_[static_cast<std::size_t>(call.member)], *half);
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

MessageHalf& Mailbox::look(FiberGroup& group, const MessageHalf::Call& call, Time ready) {
  return reopened(group, call, ready);
}

const MessageHalf* Mailbox::found_by(MessageHalf& look, Time now) {
  const Inbox& inbox = inboxes_[static_cast<std::size_t>(look.member())];
  candidates_.clear();
  add_candidates(inbox, look);
  std::erase_if(candidates_,
                [&](const Slot& slot) { return arrival_of(*slot.send, look.member()) > now; });
  if (candidates_.empty()) return nullptr;
  MessageChooser* const chooser = world_.options().chooser;
  const auto is_before = [](const Slot& a, const Slot& b) {
    return a.time() != b.time() ? a.time() < b.time() : a.send->member() < b.send->member();
  };
  Slot found = *std::ranges::min_element(candidates_, is_before);
  if (chooser != nullptr && look.is_open()) {
    std::vector<MessageChoice> choices;
    for (const Slot& slot : candidates_) choices.push_back(choice_of(slot));
    found = candidates_[chooser->choose(choices)];
  }
  waited(look, found.send);
  return found.send;
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

MessageChoice Mailbox::choice_of(const Slot& slot) {
  const MessageHalf& receive = *slot.receive;
  return {.message = {slot.send->member(), slot.send->number()},
          .receiver = receive.member(),
          .receive = receive.number(),
          .source = receive.peer(),
          .tag = receive.tag(),
          .time = slot.time(),
          .site = receive.record().site};
}

Mailbox::Slot Mailbox::chosen_by(MessageChooser& chooser) {
  std::vector<Slot> slots;
  std::vector<MessageChoice> choices;
  for (const Inbox& inbox : inboxes_) {
    find_candidates(inbox);
    for (const Slot& slot : candidates_) {
      slots.push_back(slot);
      choices.push_back(choice_of(slot));
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
  if (receive.is_open()) --num_choices_;
  if (receive.is_probe()) {
    receive.find(world_.engine(), send, arrival_of(send, receive.member()));
    return;
  }
  inbox.sends.remove(send);
  if (!agree(receive, send)) return;
  const Time arrival = send.ready() + (send.is_buffered() ? send.price() : Time());
  const Time start = max(receive.ready(), arrival);
  const Time price = send.is_buffered() ? Time()
                                        : world_.network().transfer(send.member(), receive.member(),
                                                                    send.num_bytes(), start);
  receive.match(world_.engine(), send, start, price);
}

// An announcement is as fast as an empty message.
Time Mailbox::arrival_of(const MessageHalf& send, int receiver) {
  if (send.is_buffered()) return send.ready() + send.price();
  return send.ready() + world_.network().transfer(send.member(), receiver, 0, send.ready());
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

}  // namespace shardsim
