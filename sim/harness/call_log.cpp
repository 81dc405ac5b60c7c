#include "sim/harness/call_log.hpp"

#include <algorithm>
#include <exception>

#include "sim/kernel/error.hpp"

#include "backends/wrapping_communicator.hpp"

namespace shardsim {

class CallLog::LoggedMessages final : public TaggedMessages {
 public:
  explicit LoggedMessages(CallLog& log) : log_(log) {}

  [[nodiscard]] int rank() const override { return log_.real_messages_.rank(); }
  [[nodiscard]] int size() const override { return log_.real_messages_.size(); }
  Work send(const Tensor& buffer, int peer, int tag, const CallOptions& options,
            CallSite site) override {
    return log_.send(buffer, peer, tag, options, site);
  }
  Work recv(const Tensor& buffer, int source, int tag, MessageStatus* status,
            const CallOptions& options, CallSite site) override {
    return log_.recv(buffer, source, tag, status, options, site);
  }
  MessageStatus probe(int source, int tag, DType dtype, CallSite site) override {
    return log_.probe(source, tag, dtype, site);
  }
  std::optional<MessageStatus> try_probe(int source, int tag, DType dtype, CallSite site) override {
    return log_.try_probe(source, tag, dtype, site);
  }

 private:
  CallLog& log_;
};

/// The program's end of a communicator.
class CallLog::LoggedCommunicator final : public WrappingCommunicator {
 public:
  LoggedCommunicator(CallLog& log, int group, Communicator& real)
      : WrappingCommunicator(real), log_(log.weak_from_this()), group_(group) {}
  ~LoggedCommunicator() override {
    if (const std::shared_ptr<CallLog> log = log_.lock()) log->close(group_);
  }

  Work post(const Call& call) override { return log_.lock()->post(group_, call); }
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, const std::string& name,
                                                    CallSite site) override {
    return log_.lock()->split(group_, color, key, name, site);
  }
  // In the log messages have no group: those of all ranks alone are there.
  [[nodiscard]] std::unique_ptr<TaggedMessages> tagged_messages() override {
    if (group_ == 0) return std::make_unique<LoggedMessages>(*log_.lock());
    throw UsageError("E1219", "a check on processes has no tagged messages of group " + name(),
                     "use RankContext::messages(), with tags that tell groups apart");
  }

 private:
  std::weak_ptr<CallLog> log_;
  int group_;
};

CallLog::CallLog(std::unique_ptr<Communicator> world, TaggedMessages& messages,
                 std::function<void()> woken)
    : real_messages_(messages), woken_(std::move(woken)) {
  names_.emplace_back(world->name(), world->size());
  groups_.push_back({.communicator = std::move(world)});
}

CallLog::~CallLog() = default;

void CallLog::open() {
  world_ = std::make_unique<LoggedCommunicator>(*this, 0, *groups_.front().communicator);
  tagged_ = std::make_unique<LoggedMessages>(*this);
}

Communicator& CallLog::world() { return *world_; }
TaggedMessages& CallLog::messages() { return *tagged_; }

// --- Steps -------------------------------------------------------------------------------------

void CallLog::write(const CallStep& step) { transfer(writer_, step); }

void CallLog::end() { is_live_ = false; }

void CallLog::refused(const Diagnosis& report) {
  write({.kind = CallStep::Kind::refused, .report = report});
  end();
}

void CallLog::threw(const std::string& what, const std::string& code, const std::string& fix) {
  write({.kind = CallStep::Kind::threw, .report = {.code = code, .summary = what, .hint = fix}});
  end();
}

// --- Calls -------------------------------------------------------------------------------------

CallLog::Held& CallLog::hold(int group) {
  held_.push_back({.number = num_works_++, .group = group});
  held_.back().place = std::prev(held_.end());
  if (group >= 0) ++groups_[static_cast<std::size_t>(group)].num_held;
  return held_.back();
}

Work CallLog::hand_out(Held& held) { return {*this, &held}; }

Work CallLog::post(int group, const Call& call) {
  CallOptions options = *call.options;
  Call made = call;
  made.options = &options;
  CallStep step{.kind = CallStep::Kind::call,
                .group = group,
                .call = call.kind,
                .collective = call.collective,
                .record = call.record};
  if (options.after != nullptr && options.after->pending()) {
    const Held& before = *static_cast<const Held*>(options.after->operation());
    step.after = before.number;
    // It may have ended in a test.
    options.after = before.work.pending() ? &before.work : nullptr;
  }
  step.counts.assign(options.counts.begin(), options.counts.end());
  step.padding_at.assign(options.padding_at.begin(), options.padding_at.end());
  step.send_counts.assign(call.send_counts.begin(), call.send_counts.end());
  step.recv_counts.assign(call.recv_counts.begin(), call.recv_counts.end());
  for (const P2pOp& half : call.halves) {
    step.halves.push_back({.sends = half.kind == P2pOp::Kind::send,
                           .peer = half.peer,
                           .dtype = half.buffer.dtype(),
                           .count = half.buffer.numel()});
  }
  write(step);
  Held& held = hold(group);
  held.work = groups_[static_cast<std::size_t>(group)].communicator->post(made);
  return hand_out(held);
}

namespace {

CallStep step_of_message(bool sends, const Tensor& buffer, int peer, int tag,
                         const CallOptions& options, const CallSite& site) {
  return {.kind = CallStep::Kind::message,
          .record = {.dtype = buffer.dtype(),
                     .count = buffer.defined() ? buffer.numel() : -1,
                     .label = options.label,
                     .traffic = options.traffic,
                     .site = site},
          .sends = sends,
          .peer = peer,
          .tag = tag};
}

}  // namespace

Work CallLog::send(const Tensor& buffer, int peer, int tag, const CallOptions& options,
                   const CallSite& site) {
  write(step_of_message(true, buffer, peer, tag, options, site));
  Held& held = hold(-1);
  held.work = real_messages_.send(buffer, peer, tag, options, site);
  return hand_out(held);
}

Work CallLog::recv(const Tensor& buffer, int source, int tag, MessageStatus* status,
                   const CallOptions& options, const CallSite& site) {
  write(step_of_message(false, buffer, source, tag, options, site));
  Held& held = hold(-1);
  held.is_open = source == kAnySource || tag == kAnyTag;
  held.status = status;
  held.work = real_messages_.recv(buffer, source, tag, &held.taken, options, site);
  return hand_out(held);
}

namespace {

CallStep step_of_probe(int source, int tag, const CallSite& site) {
  return {.kind = CallStep::Kind::probe, .record = {.site = site}, .peer = source, .tag = tag};
}

}  // namespace

MessageStatus CallLog::probe(int source, int tag, DType dtype, const CallSite& site) {
  write(step_of_probe(source, tag, site));
  MessageStatus found;
  wait_in([&] { found = real_messages_.probe(source, tag, dtype, site); });
  return found;
}

std::optional<MessageStatus> CallLog::try_probe(int source, int tag, DType dtype,
                                                const CallSite& site) {
  try {
    return real_messages_.try_probe(source, tag, dtype, site);
  } catch (...) {
    write(step_of_probe(source, tag, site));
    is_stuck_ = true;
    throw;
  }
}

std::unique_ptr<Communicator> CallLog::split(int group, int color, int key, const std::string& name,
                                             const CallSite& site) {
  write({.kind = CallStep::Kind::split,
         .group = group,
         .color = color,
         .key = key,
         .name = name.c_str(),
         .record = {.site = site}});
  std::unique_ptr<Communicator> part;
  wait_in([&] {
    part = groups_[static_cast<std::size_t>(group)].communicator->split(color, key, name, site);
  });
  if (part == nullptr) return nullptr;
  const std::pair<std::string, int> named(name, part->size());
  if (std::ranges::find(names_, named) == names_.end()) names_.push_back(named);
  Communicator& real = *part;
  groups_.push_back({.communicator = std::move(part)});
  return std::make_unique<LoggedCommunicator>(*this, static_cast<int>(groups_.size()) - 1, real);
}

void CallLog::close(int group) noexcept {
  if (!is_live_ || group == 0 || std::uncaught_exceptions() > 0) return;
  write({.kind = CallStep::Kind::close, .group = group});
  Group& closed = groups_[static_cast<std::size_t>(group)];
  closed.closed = true;
  close_if_idle(closed);
}

// The real one goes when nothing is under way on it, so that nothing of it is left in the air.
void CallLog::close_if_idle(Group& group) {
  if (group.num_held == 0) group.communicator.reset();
}

void CallLog::close_all() {
  world_.reset();
  for (Group& group : groups_) close_if_idle(group);
}

// --- Works -------------------------------------------------------------------------------------

void CallLog::wait_in(const std::function<void()>& body) {
  is_waiting_ = true;
  try {
    body();
  } catch (...) {
    is_stuck_ = true;
    throw;
  }
  is_waiting_ = false;
  woken_();
}

void CallLog::wait(void* token) {
  Held& held = *static_cast<Held*>(token);
  write({.kind = CallStep::Kind::wait, .work = held.number});
  if (held.group >= 0 && groups_[static_cast<std::size_t>(held.group)].closed) {
    is_stuck_ = true;
    throw CommunicationError(
        {.code = "GROUP_DEAD",
         .summary = "a work is waited for whose communicator is gone",
         .hint = "destroy a communicator when all of its works have been waited for"});
  }
  wait_in([&] { held.work.wait(); });
  release(held);
}

void CallLog::release(Held& held) {
  if (held.is_open) {
    write({.kind = CallStep::Kind::took,
           .work = held.number,
           .peer = held.taken.source,
           .tag = held.taken.tag});
  }
  if (held.status != nullptr) *held.status = held.taken;
  if (held.group >= 0) --groups_[static_cast<std::size_t>(held.group)].num_held;
  held_.erase(held.place);
}

void CallLog::abandon(void* token) noexcept {
  if (!is_live_ || std::uncaught_exceptions() > 0) return;
  Held& held = *static_cast<Held*>(token);
  held.dropped = true;
  write({.kind = CallStep::Kind::drop, .work = held.number});
}

bool CallLog::has_ended(void* token) {
  Held& held = *static_cast<Held*>(token);
  try {
    return held.work.test();
  } catch (...) {
    if (!is_waiting_) write({.kind = CallStep::Kind::wait, .work = held.number});
    is_stuck_ = true;
    throw;
  }
}

std::size_t CallLog::first_ended(std::span<void* const> tokens) {
  CallStep step{.kind = CallStep::Kind::any};
  for (void* const token : tokens) step.counts.push_back(static_cast<Held*>(token)->number);
  write(step);
  std::size_t first = tokens.size();
  wait_in([&] {
    while (first == tokens.size()) {
      for (first = 0; first < tokens.size() && !has_ended(tokens[first]); ++first) continue;
    }
  });
  return first;
}

}  // namespace shardsim
