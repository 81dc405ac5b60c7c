#include <string>
#include <utility>

#include "backends/fiber/fiber_world.hpp"
#include "backends/fiber/mailbox.hpp"

namespace shardsim {

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

void FiberTaggedMessages::check(const MessageHalf::Call& call, const CallRecord& record) const {
  const bool peer = call.peer >= 0 && call.peer < size();
  const bool tag = call.tag >= 0;
  if (!call.buffer.defined()) {
    refuse(record, "`buffer` is an undefined tensor", kUndefinedTensorHint);
  }
  if ((peer || (!call.sends && call.peer == kAnySource)) &&
      (tag || (!call.sends && call.tag == kAnyTag))) {
    return;
  }
  refuse(record, "peer is " + std::to_string(call.peer) + ", tag is " + std::to_string(call.tag),
         "ranks are 0 to " + std::to_string(size() - 1) +
             ", tags 0 or more; receives may ask for kAnySource and kAnyTag");
}

void FiberTaggedMessages::refuse(const CallRecord& record, const std::string& what,
                                 const std::string& hint) const {
  Diagnosis diagnosis =
      stream_->group().report("ARG_RANGE", stream_->rank(), record.name, record.site);
  diagnosis.summary = std::string(record.name) + " on rank " + std::to_string(rank()) + ": " + what;
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
                         .status = status};
  const CallRecord record{.name = sends ? "send" : "recv",
                          .dtype = buffer.dtype(),
                          .root = peer,
                          .tag = tag,
                          .count = buffer.numel(),
                          .label = options.label,
                          .traffic = options.traffic,
                          .site = site};
  check(call, record);
  FiberWorld& world = stream_->group().world();
  RankState& state = stream_->rank();
  call.ready = state.clock().post(false, world.rules());
  RankHash& hash = state.hash();
  hash.add(static_cast<std::uint64_t>(sends) << 63U |
           static_cast<std::uint64_t>(static_cast<std::uint32_t>(peer)) << 24U |
           static_cast<std::uint64_t>(static_cast<std::uint32_t>(tag)));
  hash.add(static_cast<std::uint64_t>(record.count) ^ hash_label(record.label));
  MessageHalf& half = world.mailbox().post(stream_->group(), std::move(call), record);
  if (world.is_watched()) {
    world.watch_post({.rank = state.index(),
                      .operation = &half,
                      .handle = &half,
                      .fills_all = false,
                      .record = record,
                      .group = &stream_->group().name()},
                     sends ? Tensor() : buffer, sends ? buffer : Tensor());
  }
  return stream_->hand_out(half);
}

}  // namespace shardsim
