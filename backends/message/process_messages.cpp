#include "backends/message/process_messages.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include <fmt/format.h>

namespace shardsim {

namespace {

MessageStatus status_of(const TakenMessage& message, DType dtype) {
  return {.source = message.source, .tag = message.tag, .count = message.bytes / size_of(dtype)};
}

}  // namespace

/// A send or a receive.
class ProcessMessages::Half final : public ProcessOperation {
 public:
  Half(const CallRecord& record, std::int64_t sequence, const Tensor& buffer, bool sends,
       MessageStatus* status)
      : ProcessOperation(record, sequence), buffer_(buffer), sends_(sends), status_(status) {}

  void begin(Transport::Request request) { request_ = request; }
  void end(const TakenMessage& taken) {
    taken_ = taken;
    ended_ = true;
  }
  /// Tells the caller what it has taken.
  void fill_status() const {
    if (status_ == nullptr) return;
    *status_ = status_of(taken_, record_.dtype);
  }
  void count_for(int self) {
    const std::int64_t bytes = sends_ ? buffer_.num_bytes() : taken_.bytes;
    count(self,
          {.kind = sends_ ? MessageStep::Kind::send : MessageStep::Kind::receive,
           .peer = sends_ ? record_.root : taken_.source,
           .slice = {0, bytes}},
          1);
  }

  [[nodiscard]] bool ended() const override { return ended_; }
  [[nodiscard]] bool sends() const { return sends_; }
  [[nodiscard]] Transport::Request request() const { return request_; }

 private:
  Tensor buffer_;
  bool sends_;
  MessageStatus* status_;
  Transport::Request request_ = 0;
  TakenMessage taken_;
  bool ended_ = false;
};

namespace {

CallRecord record_of_half(const char* name, const Tensor& buffer, int peer, int tag,
                          const CallOptions& options, CallSite site) {
  return {.name = name,
          .dtype = buffer.dtype(),
          .root = peer,
          .tag = tag,
          .count = buffer.defined() ? buffer.numel() : 0,
          .label = options.label,
          .traffic = options.traffic,
          .site = site};
}

}  // namespace

ProcessMessages::ProcessMessages(MessageRank& process, std::unique_ptr<Transport> transport)
    : process_(process), transport_(std::move(transport)) {
  stream_.name = "messages";
  stream_.members = transport_->world_ranks();
  stream_.member = transport_->rank();
  process_.set_messages([this] { return advance(); });
}

ProcessMessages::~ProcessMessages() { process_.set_messages({}); }

Work ProcessMessages::send(const Tensor& buffer, int peer, int tag, const CallOptions& options,
                           CallSite site) {
  const CallRecord record = record_of_half("send", buffer, peer, tag, options, site);
  require(peer >= 0 && peer < size() && tag >= 0, record, &buffer);
  auto half = std::make_shared<Half>(record, stream_.next_sequence++, buffer, true, nullptr);
  const bool rendezvous = !process_.options().buffered_sends;
  return post(std::move(half), transport_->send_tagged(peer, tag, buffer.wire_data(),
                                                       buffer.num_bytes(), rendezvous));
}

Work ProcessMessages::recv(const Tensor& buffer, int source, int tag, MessageStatus* status,
                           const CallOptions& options, CallSite site) {
  const CallRecord record = record_of_half("recv", buffer, source, tag, options, site);
  require(source >= kAnySource && source < size() && tag >= kAnyTag, record, &buffer);
  auto half = std::make_shared<Half>(record, stream_.next_sequence++, buffer, false, status);
  return post(std::move(half),
              transport_->receive_tagged(source, tag, buffer.wire_data(), buffer.num_bytes()));
}

MessageStatus ProcessMessages::probe(int source, int tag, DType dtype, CallSite site) {
  const std::unique_ptr<Half> half = half_of_probe(source, tag, dtype, site);
  std::optional<TakenMessage> found;
  const auto is_there = [&] {
    found = transport_->probe_tagged(source, tag);
    return found.has_value();
  };
  process_.go_on_until(is_there, [&] { time_out(*half); });
  process_.note_progress();
  return status_of(*found, dtype);
}

std::optional<MessageStatus> ProcessMessages::try_probe(int source, int tag, DType dtype,
                                                        CallSite site) {
  const std::unique_ptr<Half> half = half_of_probe(source, tag, dtype, site);
  std::optional<TakenMessage> found = transport_->probe_tagged(source, tag);
  if (!found) {
    process_.look([&] { time_out(*half); });
    found = transport_->probe_tagged(source, tag);
  }
  if (!found) return std::nullopt;
  process_.note_progress();
  return status_of(*found, dtype);
}

std::unique_ptr<ProcessMessages::Half> ProcessMessages::half_of_probe(int source, int tag,
                                                                      DType dtype,
                                                                      CallSite site) const {
  const CallRecord record{
      .name = "probe", .dtype = dtype, .root = source, .tag = tag, .count = 0, .site = site};
  require(source >= kAnySource && source < size() && tag >= kAnyTag, record, nullptr);
  return std::make_unique<Half>(record, stream_.next_sequence, Tensor(), /*sends=*/false, nullptr);
}

void ProcessMessages::require(bool in_range, const CallRecord& record, const Tensor* buffer) const {
  if (in_range && (buffer == nullptr || buffer->defined())) return;
  Diagnosis diagnosis{
      .code = "ARG_RANGE",
      .summary = fmt::format("{} on rank {}: ", record.name, process_.rank()),
      .group = stream_.name,
      .members = ascending(stream_.members),
      .sides = {{.ranks = {process_.rank()}, .action = record.name, .site = record.site}}};
  if (buffer != nullptr && !buffer->defined()) {
    diagnosis.summary += "`buffer` is an undefined tensor";
    diagnosis.hint = kUndefinedTensorHint;
  } else {
    diagnosis.summary += fmt::format("peer is {}, tag is {}", record.root, record.tag);
    diagnosis.hint = fmt::format(
        "ranks are 0 to {}, tags 0 or more; receives may ask for kAnySource and kAnyTag",
        size() - 1);
  }
  throw CommunicationError(std::move(diagnosis));
}

// Works of groups that come behind it know it as an operation like theirs.
ProcessMessages::Half& ProcessMessages::half_of(void* token) {
  return static_cast<Half&>(*static_cast<ProcessOperation*>(token));
}

Work ProcessMessages::post(std::shared_ptr<Half> half, Transport::Request request) {
  half->begin(request);
  process_.tell(&CallWatch::posted, stream_, *half);
  process_.tell(&CallWatch::started, stream_, *half);
  halves_.push_back(std::move(half));
  return {*this, static_cast<ProcessOperation*>(halves_.back().get())};
}

bool ProcessMessages::advance() {
  bool moved = false;
  for (const auto& half : halves_) moved |= advance(*half);
  return moved;
}

bool ProcessMessages::advance(Half& half) {
  if (half.ended()) return false;
  try {
    if (!transport_->done(half.request())) return false;
  } catch (const WrongSize&) {
    truncated(half);
  }
  half.end(half.sends() ? TakenMessage{} : transport_->taken());
  stream_.last_ended = half.record().describe();
  process_.tell(&CallWatch::ended, stream_, half);
  return true;
}

void ProcessMessages::wait(void* token) {
  const Half* const awaited = &half_of(token);
  const std::shared_ptr<Half> half =
      *std::ranges::find(halves_, awaited, [](const auto& each) { return each.get(); });
  process_.go_on_until([&] { return half->ended(); }, [&] { time_out(*half); });
  process_.note_progress();
  std::erase(halves_, half);
  half->fill_status();
  half->count_for(rank());
  const TrafficCounters& moved = half->moved();
  counters_ += moved;
  ++(half->record().traffic == TrafficClass::scalar ? counters_.scalar_calls : counters_.calls);
}

bool ProcessMessages::has_ended(void* token) {
  const Half& half = half_of(token);
  if (!half.ended()) process_.look([&] { time_out(half); });
  return half.ended();
}

std::size_t ProcessMessages::first_ended(std::span<void* const> tokens) {
  while (true) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      // Works of other owners are asked, too.
      if (static_cast<const ProcessOperation*>(tokens[i])->ended()) return i;
    }
    static_cast<void>(has_ended(tokens.front()));  // That one is ours.
  }
}

void ProcessMessages::abandon(void* token) noexcept {
  if (std::uncaught_exceptions() > 0) return;  // That is reported instead.
  const Half& half = half_of(token);
  Diagnosis diagnosis = process_.report("REQ_LEAK", stream_, half);
  diagnosis.summary = fmt::format("rank {} dropped the handle of {} without waiting for it",
                                  process_.rank(), half.record().describe());
  diagnosis.sides = {half.record().side_of({process_.rank()})};
  diagnosis.hint = "keep the Work that the call returns, and call its wait()";
  process_.fail(std::move(diagnosis));
}

void ProcessMessages::time_out(const Half& half) const {
  const int peer = half.record().root;
  std::vector<int> silent;
  if (peer >= 0) silent.push_back(stream_.members[static_cast<std::size_t>(peer)]);
  Diagnosis diagnosis = process_.time_out_report(stream_, half, half, std::move(silent));
  diagnosis.hint = "check that the peer is alive, and that it sends or receives with this tag";
  throw CommunicationError(std::move(diagnosis));
}

void ProcessMessages::truncated(const Half& half) const {
  const TakenMessage taken = transport_->taken();
  Diagnosis diagnosis = process_.report("P2P_TRUNC", stream_, half);
  diagnosis.summary = fmt::format("rank {} in {}: the message is longer", process_.rank(),
                                  half.record().describe());
  diagnosis.sides = {half.record().side_of({process_.rank()})};
  if (taken.source >= 0) {
    const int sender = stream_.members[static_cast<std::size_t>(taken.source)];
    diagnosis.sides.push_back({.ranks = {sender}, .action = "sent more"});
  }
  diagnosis.hint = "receive into a buffer of at least the size that is sent";
  throw CommunicationError(std::move(diagnosis));
}

}  // namespace shardsim
