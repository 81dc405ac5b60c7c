#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/fiber/fiber_communicator.hpp"
#include "backends/fiber/fiber_world.hpp"

namespace shardsim {

namespace {

// The price of a look at an operation that is still under way.
constexpr Time kPollTime = Time::from_picoseconds(1'000'000);

}  // namespace

FiberStream::FiberStream(FiberGroup& group, int member, CallSite made_at)
    : group_(group),
      rank_(group.world().engine().rank(group.world_rank(member))),
      member_(member),
      observer_(group.world().observer_of(rank_.index())),
      made_at_(made_at) {
  for (const int other : group.stood_for(member)) others_.push_back({other, {}});
  if (rank_.trace() != nullptr) {
    track_ = static_cast<int>(rank_.trace()->tracks.size());
    rank_.trace()->tracks.push_back({.name = group.name()});
  }
}

void FiberStream::order(FiberOperation& operation, const Work* after) {
  Engine& engine = group_.world().engine();
  Time ready = rank_.clock().post(after != nullptr, group_.world().rules());
  // All members of a collective mostly follow the same operation of this stream: once is enough.
  if (last_ == nullptr || last_->resolved()) {
    ready = max(ready, last_ == nullptr ? free_ : last_->end());
  } else if (!last_->is_followed_by(operation)) {
    operation.expect(1);
    operation.follow(engine, *last_);
  }
  if (after != nullptr) {
    operation.expect(1);
    operation.follow(engine, *static_cast<FiberOperation*>(after->operation()));
  }
  operation.settle(engine, ready);
}

void FiberStream::start_waiting(FiberOperation& operation) {
  if (!closed_) {
    observer_->waits(operation);
    return;
  }
  Diagnosis diagnosis = report(operation, "GROUP_DEAD");
  diagnosis.summary = "rank " + std::to_string(rank_.index()) + " waits for " +
                      operation.record_of(member_).describe() + " of group " + group_.name() +
                      ", whose communicator it has destroyed";
  diagnosis.hint = "destroy a communicator when all of its works have been waited for";
  throw CommunicationError(std::move(diagnosis));
}

// Ranks mostly talk to the same peer: then its link is looked for once.
inline void FiberStream::count_message(const MessageEnd& end, TrafficClass traffic) {
  Link& link = last_links_[end.sends ? 1 : 0];
  if (link.from != end.from || link.to != end.to || link.traffic != traffic) {
    flush(end.sends);
    link = {.from = end.from, .to = end.to, .traffic = traffic};
  }
  link.bytes += end.bytes;
  ++link.calls;
}

template <class Kind>
inline void FiberStream::account(Kind& operation) {
  const std::optional<MessageEnd> message = operation.message_end(member_);
  std::int64_t sent = 0;
  if (message && others_.empty()) {
    count_message(*message, operation.record().traffic);
    sent = message->sends && message->from != message->to ? message->bytes : 0;
  } else {
    const Moved moved = operation.moved(member_);
    count(operation, member_, moved, counters_);
    for (StoodFor& other : others_) {
      count(operation, other.member, operation.moved(other.member), other.counters);
    }
    sent = moved.payload.sent + moved.padding_sent;
  }
  group_.world().add_busy(rank_.index(), operation.end() - operation.start());
  if (track_ >= 0) trace(operation, sent);
}

void FiberStream::require_world() const {
  if (!outlives_world_) return;
  throw UsageError("E0510", "a work is waited for after its run has ended",
                   "wait for every work in the rank that has posted it");
}

template <class Kind>
void FiberStream::wait_as(Kind& operation) {
  require_world();
  --num_handles_;
  if (closed_ || observer_ != nullptr) start_waiting(operation);
  FiberWorld& world = group_.world();
  rank_.settle_streams();
  world.engine().await(rank_, operation);
  rank_.wait(operation.start(), operation.end(), operation.is_transfer(), world.rules());
  if (observer_ != nullptr) observer_->waited(operation, member_);
  if (last_ == &operation) last_ = nullptr;
  free_ = max(free_, operation.end());
  account(operation);
  operation.note_wait();
  if (world.is_watched()) world.watch_wait(rank_, operation);
  operation.release();
}

void FiberStream::wait(void* token) { wait_as(*static_cast<FiberOperation*>(token)); }

void TaggedStream::wait(void* token) {
  wait_as(static_cast<MessageHalf&>(*static_cast<FiberOperation*>(token)));
}

void FiberStream::poll() {
  const Time end = rank_.now() + kPollTime;
  rank_.poll(end, end);
}

bool FiberStream::has_ended(void* token) {
  require_world();
  FiberOperation& operation = *static_cast<FiberOperation*>(token);
  rank_.settle_streams();
  const Time now = rank_.now();
  if (!operation.resolved()) {
    Operation* const asked[] = {&operation};
    group_.world().engine().await_any(rank_, asked, now);
  }
  if (operation.resolved() && operation.end() <= now) return true;
  // Whether one that starts later is resolved by now depends on the order of launches.
  const bool is_under_way = operation.resolved() && operation.start() <= now;
  const Time poll = now + kPollTime;
  rank_.poll(is_under_way ? operation.start() : poll, poll);
  return false;
}

std::size_t FiberStream::first_ended(std::span<void* const> tokens) {
  require_world();
  rank_.settle_streams();
  std::vector<Operation*> operations;
  for (void* const token : tokens) operations.push_back(static_cast<FiberOperation*>(token));
  const Time now = group_.world().engine().await_any(rank_, operations, std::nullopt);
  std::size_t first = operations.size();
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (!operations[i]->resolved() || operations[i]->end() > now) continue;
    if (first == operations.size() || operations[i]->end() < operations[first]->end()) first = i;
  }
  return first;
}

void FiberStream::abandon(void* token) noexcept {
  if (outlives_world_) return;
  FiberOperation& operation = *static_cast<FiberOperation*>(token);
  --num_handles_;
  Engine& engine = group_.world().engine();
  // While a stack unwinds, handles are dropped for another reason, which is reported instead.
  if (engine.cancelling() || std::uncaught_exceptions() > 0) return;
  Diagnosis diagnosis = report(operation, "REQ_LEAK");
  diagnosis.summary = "rank " + std::to_string(rank_.index()) + " dropped the handle of " +
                      operation.record_of(member_).describe() + " without waiting for it";
  diagnosis.hint = "keep the Work that the call returns, and call its wait()";
  engine.fail(std::move(diagnosis), rank_.index());
}

Diagnosis FiberStream::report(const FiberOperation& operation, const char* code) const {
  const CallRecord& call = operation.record_of(member_);
  Diagnosis diagnosis = group_.report(code, rank_, call.describe(), call.site);
  diagnosis.sequence = operation.sequence();
  return diagnosis;
}

void FiberStream::count(FiberOperation& operation, int member, const Moved& moved,
                        TrafficCounters& counters) {
  const TrafficClass traffic = operation.record().traffic;
  add_moved(counters, moved, traffic);
  if (traffic == TrafficClass::scalar) return;
  if (moved.payload.sent > 0) {
    // A batch moves data by its sends; real processes count those, too.
    const std::string_view name = operation.record_of(member).name;
    group_.add_sent(name == "batch" ? "send" : name.data(), moved.payload.sent);
  }
  operation.count_off_ring(member);
}

void FiberStream::flush(bool sends) {
  const Link link = std::exchange(last_links_[sends ? 1 : 0], {});
  if (link.calls == 0) return;
  const bool moves = link.from != link.to;
  Moved moved;
  if (moves) moved = one_message(sends, link.bytes);
  if (moves && sends) moved.payload.messages = link.calls;
  add_moved(counters_, moved, link.traffic);
  (link.traffic == TrafficClass::scalar ? counters_.scalar_calls : counters_.calls) +=
      link.calls - 1;
  if (!moves || link.traffic == TrafficClass::scalar) return;
  group_.off_ring().add_sum(sends, link.from, link.to, link.bytes, link.calls);
  if (sends && link.bytes > 0) group_.add_sent("send", link.bytes);
}

void FiberStream::flush() {
  flush(false);
  flush(true);
}

void FiberStream::trace(const FiberOperation& operation, std::int64_t sent) {
  rank_.trace()->tracks[static_cast<std::size_t>(track_)].slices.push_back(
      {.name = operation.record_of(member_).name,
       .begin = operation.start(),
       .end = operation.end(),
       .bytes = sent,
       .label = operation.record().label,
       .operation = operation.trace_id()});
}

}  // namespace shardsim
