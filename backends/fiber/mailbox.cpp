#include "backends/fiber/mailbox.hpp"

#include <algorithm>
#include <utility>

#include "backends/fiber/fiber_world.hpp"

namespace shardsim {

namespace {

void forget(std::vector<MessageHalf*>& halves, const MessageHalf& half) {
  halves.erase(std::find(halves.begin(), halves.end(), &half));
}

void learn(std::vector<std::int32_t>& known, const std::vector<std::int32_t>& other) {
  for (std::size_t i = 0; i < other.size(); ++i) known[i] = std::max(known[i], other[i]);
}

// A report about a receive and a send that do not fit each other; it has no code yet.
Diagnosis report_on(const MessageHalf& receive, const MessageHalf& send) {
  const MessageHalf::Call& asked = receive.call();
  const MessageHalf::Call& sent = send.call();
  return {.group = receive.group()->name(),
          .members = ascending({asked.member, sent.member}),
          .sequence = receive.sequence(),
          .sides = {asked.record.side_of({asked.member}), sent.record.side_of({sent.member})}};
}

}  // namespace

Mailbox::Mailbox(FiberWorld& world) : world_(world) {
  const auto ranks = static_cast<std::size_t>(world.engine().num_ranks());
  sends_.resize(ranks);
  receives_.resize(ranks);
  num_sends_.resize(ranks, 0);
  num_receives_.resize(ranks, 0);
  if (world.options().chooser != nullptr) {
    known_.assign(ranks, std::vector<std::int32_t>(ranks, 0));
  }
}

// --- Posting -----------------------------------------------------------------------------------

MessageHalf& Mailbox::post(FiberGroup& group, MessageHalf::Call call) {
  const auto rank = static_cast<std::size_t>(call.member);
  call.number = call.sends ? num_sends_[rank]++ : num_receives_[rank]++;
  const auto receiver = static_cast<std::size_t>(call.sends ? call.peer : call.member);
  MessageHalf* half = nullptr;
  if (free_.empty()) {
    half = &halves_.emplace_back();
  } else {
    half = free_.back();
    free_.pop_back();
  }
  half->open(group, *this, std::move(call));
  if (!known_.empty()) half->known = known_[rank];
  if (half->call().sends) {
    if (MessageChooser* const chooser = world_.options().chooser) {
      chooser->sent({.name = {half->call().member, half->call().number},
                     .destination = half->call().peer,
                     .tag = half->call().tag,
                     .known = half->known});
    }
    if (world_.sends_ahead(half->call().member, half->call().number)) send_ahead(*half);
    sends_[receiver].push_back(half);
  } else {
    if (half->is_open()) ++num_open_;
    receives_[receiver].push_back(half);
  }
  match_named(static_cast<int>(receiver));
  return *half;
}

void Mailbox::send_ahead(MessageHalf& half) {
  const MessageHalf::Call& call = half.call();
  const Time price =
      world_.network().transfer(call.member, call.peer, call.buffer.num_bytes(), call.ready);
  half.set_buffered(unwatched_copy(call.buffer), price);
  half.settle(world_.engine(), call.ready);
}

// --- Matching ----------------------------------------------------------------------------------

// Each receive with the oldest message of each sender that it may take; a message that an earlier
// receive may take, too, is not for the later one while that is open.
std::vector<Mailbox::Slot> Mailbox::candidates_of(int receiver) const {
  const auto& receives = receives_[static_cast<std::size_t>(receiver)];
  const auto& sends = sends_[static_cast<std::size_t>(receiver)];
  std::vector<Slot> candidates;
  for (std::size_t r = 0; r < receives.size(); ++r) {
    std::vector<bool> seen(sends_.size(), false);  // Senders of which it may take an older message.
    for (MessageHalf* const send : sends) {
      const auto sender = static_cast<std::size_t>(send->call().member);
      if (!receives[r]->fits(*send) || seen[sender]) continue;
      seen[sender] = true;
      const auto earlier_fits = [&](const MessageHalf* other) { return other->fits(*send); };
      const auto mine = receives.begin() + static_cast<std::ptrdiff_t>(r);
      if (std::any_of(receives.begin(), mine, earlier_fits)) continue;
      candidates.push_back({receives[r], send});
    }
  }
  return candidates;
}

void Mailbox::match_named(int receiver) {
  while (true) {
    const std::vector<Slot> candidates = candidates_of(receiver);
    const auto named = std::find_if(candidates.begin(), candidates.end(),
                                    [](const Slot& slot) { return !slot.receive->is_open(); });
    if (named == candidates.end()) return;
    match(*named->receive, *named->send);
  }
}

bool Mailbox::decide(std::optional<Time> next) {
  if (num_open_ == 0) return false;
  MessageChooser* const chooser = world_.options().chooser;
  // All that can end without a decision ends first: then every message is there.
  if (chooser != nullptr && next) return false;
  std::vector<Slot> slots;
  std::vector<MessageChoice> choices;
  for (std::size_t rank = 0; rank < receives_.size(); ++rank) {
    for (const Slot& slot : candidates_of(static_cast<int>(rank))) {
      const MessageHalf::Call& send = slot.send->call();
      const MessageHalf::Call& receive = slot.receive->call();
      slots.push_back(slot);
      choices.push_back({.message = {send.member, send.number},
                         .receiver = receive.member,
                         .receive = receive.number,
                         .source = receive.peer,
                         .tag = receive.tag,
                         .time = max(send.ready, receive.ready),
                         .site = receive.record.site});
    }
  }
  if (choices.empty()) return false;
  std::size_t chosen = 0;
  if (chooser != nullptr) {
    chosen = chooser->choose(choices);
  } else {
    for (std::size_t i = 1; i < choices.size(); ++i) {
      if (choices[i].time < choices[chosen].time) chosen = i;
    }
    if (next && *next < choices[chosen].time) return false;
  }
  const int receiver = slots[chosen].receive->call().member;
  match(*slots[chosen].receive, *slots[chosen].send);
  match_named(receiver);
  return true;
}

void Mailbox::match(MessageHalf& receive, MessageHalf& send) {
  const auto receiver = static_cast<std::size_t>(receive.call().member);
  forget(receives_[receiver], receive);
  forget(sends_[receiver], send);
  if (receive.is_open()) --num_open_;
  if (!agree(receive, send)) return;
  const Time arrival = send.call().ready + (send.is_buffered() ? send.price() : Time());
  const Time start = max(receive.call().ready, arrival);
  const Time price = send.is_buffered()
                         ? Time()
                         : world_.network().transfer(send.call().member, receive.call().member,
                                                     send.call().buffer.num_bytes(), start);
  receive.match(world_.engine(), send, start, price);
}

bool Mailbox::agree(const MessageHalf& receive, const MessageHalf& send) {
  const CallRecord& sent = send.call().record;
  const CallRecord& asked = receive.call().record;
  // Only who labels both ends says what belongs together.
  const bool labelled = *asked.label != '\0' && *sent.label != '\0';
  const bool labels = !labelled || same_text(asked.label, sent.label);
  const bool same = sent.dtype == asked.dtype && sent.traffic == asked.traffic;
  if (labels && same && sent.count <= asked.count) return true;
  Diagnosis diagnosis = report_on(receive, send);
  const std::string ways = " from rank " + std::to_string(send.call().member) + " to rank " +
                           std::to_string(receive.call().member);
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
  diagnosis.time = max(send.call().ready, receive.call().ready);
  world_.engine().fail(std::move(diagnosis), receive.call().member);
  return false;
}

// A rank's knowledge of matches: its own waits, in order, and the knowledge of ranks that told it.
// A rendezvous sender knows that the receive was posted, and what its rank knew then.
void Mailbox::waited(const MessageHalf& half, const MessageHalf* other) {
  if (known_.empty() || other == nullptr) return;
  const auto rank = static_cast<std::size_t>(half.call().member);
  // A buffered send ends whether it was taken or not: that tells nothing.
  if (half.call().sends && half.is_buffered()) return;
  learn(known_[rank], other->known);
  if (half.call().sends || !half.is_open()) return;
  ++known_[rank][rank];
  world_.options().chooser->waited(half.call().member, half.call().number);
}

// --- What is left ------------------------------------------------------------------------------

std::vector<int> Mailbox::possible_senders(int member) const {
  std::vector<int> running;
  std::vector<int> others;
  for (int rank = 0; rank < static_cast<int>(sends_.size()); ++rank) {
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
    return world_.engine().rank(half.call().member).blocked_on() == &half;
  };
  for (const std::vector<MessageHalf*>& receives : receives_) {
    for (const MessageHalf* receive : receives) {
      const MessageHalf::Call& asked = receive->call();
      if (asked.tag == kAnyTag || !waits_in(*receive)) continue;
      const auto& sends = sends_[static_cast<std::size_t>(asked.member)];
      const auto near = std::find_if(sends.begin(), sends.end(), [&](const MessageHalf* send) {
        const bool from = asked.peer == kAnySource || asked.peer == send->call().member;
        return from && (waits_in(*send) || world_.engine().rank(send->call().member).finished());
      });
      if (near == sends.end()) continue;
      const MessageHalf::Call& sent = (*near)->call();
      Diagnosis diagnosis = report_on(*receive, **near);
      diagnosis.code = "P2P_TAG";
      diagnosis.summary = "rank " + std::to_string(asked.member) +
                          " waits for a message with tag " + std::to_string(asked.tag) +
                          " from rank " + std::to_string(asked.peer) +
                          "; the message that arrived has tag " + std::to_string(sent.tag);
      diagnosis.hint = "send and receive with the same tag";
      return diagnosis;
    }
  }
  return std::nullopt;
}

const MessageHalf* Mailbox::left_over() const {
  for (const std::vector<MessageHalf*>& sends : sends_) {
    if (!sends.empty()) return sends.front();
  }
  return nullptr;
}

// --- A rank's end ------------------------------------------------------------------------------

FiberTaggedMessages::FiberTaggedMessages(FiberGroup& everyone, int member)
    : stream_(std::make_unique<FiberStream>(everyone, member, CallSite{})) {}

FiberTaggedMessages::~FiberTaggedMessages() { stream_->group().world().retire(std::move(stream_)); }

int FiberTaggedMessages::size() const { return stream_->group().size(); }

Work FiberTaggedMessages::send(const Tensor& buffer, int peer, int tag, const CallOptions& options,
                               CallSite site) {
  return post(true, buffer, peer, tag, nullptr, options, site);
}

Work FiberTaggedMessages::recv(const Tensor& buffer, int source, int tag, MessageStatus* status,
                               const CallOptions& options, CallSite site) {
  return post(false, buffer, source, tag, status, options, site);
}

void FiberTaggedMessages::check(const MessageHalf::Call& call) const {
  const bool peer = call.peer >= 0 && call.peer < size();
  const bool tag = call.tag >= 0;
  if (!call.buffer.defined()) {
    refuse(call, "`buffer` is an undefined tensor", kUndefinedTensorHint);
  }
  if ((peer || (!call.sends && call.peer == kAnySource)) &&
      (tag || (!call.sends && call.tag == kAnyTag))) {
    return;
  }
  refuse(call, "peer is " + std::to_string(call.peer) + ", tag is " + std::to_string(call.tag),
         "ranks are 0 to " + std::to_string(size() - 1) +
             ", tags 0 or more; receives may ask for kAnySource and kAnyTag");
}

void FiberTaggedMessages::refuse(const MessageHalf::Call& call, const std::string& what,
                                 const std::string& hint) const {
  const std::string name = call.record.name;
  Diagnosis diagnosis =
      stream_->group().report("ARG_RANGE", stream_->rank(), name, call.record.site);
  diagnosis.summary = name + " on rank " + std::to_string(rank()) + ": " + what;
  diagnosis.hint = hint;
  throw CommunicationError(std::move(diagnosis));
}

Work FiberTaggedMessages::post(bool sends, const Tensor& buffer, int peer, int tag,
                               MessageStatus* status, const CallOptions& options, CallSite site) {
  MessageHalf::Call call{.sends = sends,
                         .member = rank(),
                         .peer = peer,
                         .tag = tag,
                         .buffer = buffer,
                         .status = status,
                         .record = {.name = sends ? "send" : "recv",
                                    .dtype = buffer.dtype(),
                                    .root = peer,
                                    .tag = tag,
                                    .count = buffer.numel(),
                                    .label = options.label,
                                    .traffic = options.traffic,
                                    .site = site}};
  check(call);
  FiberWorld& world = stream_->group().world();
  RankState& state = stream_->rank();
  state.issue(world.call_price());
  call.ready = state.now();
  RollingHash& hash = state.hash();
  hash.add(static_cast<std::uint64_t>(sends) << 63U |
           static_cast<std::uint64_t>(static_cast<std::uint32_t>(peer)) << 24U |
           static_cast<std::uint64_t>(static_cast<std::uint32_t>(tag)));
  hash.add(static_cast<std::uint64_t>(call.record.count) ^ hash_label(call.record.label));
  MessageHalf& half = world.mailbox().post(stream_->group(), std::move(call));
  world.watch_post({.rank = state.index(),
                    .operation = &half,
                    .handle = &half,
                    .fills_all = false,
                    .record = half.record(),
                    .group = &stream_->group().name()},
                   sends ? Tensor() : buffer, sends ? buffer : Tensor());
  return stream_->hand_out(half);
}

}  // namespace shardsim
