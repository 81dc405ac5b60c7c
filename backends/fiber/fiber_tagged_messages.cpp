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
  return post({.sends = true,
               .member = rank(),
               .peer = peer,
               .tag = tag,
               .buffer = buffer,
               .options = options,
               .site = site});
}

Work FiberTaggedMessages::recv(const Tensor& buffer, int source, int tag, MessageStatus* status,
                               const CallOptions& options, CallSite site) {
  return post({.sends = false,
               .member = rank(),
               .peer = source,
               .tag = tag,
               .buffer = buffer,
               .status = status,
               .options = options,
               .site = site});
}

void FiberTaggedMessages::check(const MessageHalf::Call& call) const {
  if (!call.buffer.defined()) {
    refuse(call, "`buffer` is an undefined tensor", kUndefinedTensorHint);
  }
  const bool peer = call.peer >= 0 && call.peer < size();
  const bool tag = call.tag >= 0;
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
  const std::string name = call.sends ? "send" : "recv";
  Diagnosis diagnosis = stream_->group().report("ARG_RANGE", stream_->rank(), name, call.site);
  diagnosis.summary = name + " on rank " + std::to_string(rank()) + ": " + what;
  diagnosis.hint = hint;
  throw CommunicationError(std::move(diagnosis));
}

Work FiberTaggedMessages::post(const MessageHalf::Call& call) {
  check(call);
  FiberWorld& world = stream_->group().world();
  RankState& state = stream_->rank();
  const Time ready = state.clock().post(false, world.rules());
  RankHash& hash = state.hash();
  hash.add(static_cast<std::uint64_t>(call.sends) << 63U |
           static_cast<std::uint64_t>(static_cast<std::uint32_t>(call.peer)) << 24U |
           static_cast<std::uint64_t>(static_cast<std::uint32_t>(call.tag)));
  const bool labelled = *call.options.label != '\0';  // Mostly not.
  hash.add(static_cast<std::uint64_t>(call.buffer.numel()) ^
           (labelled ? hash_label(call.options.label) : 0));
  MessageHalf& half = world.mailbox().post(stream_->group(), call, ready);
  if (world.is_watched()) {
    world.watch_post({.rank = state.index(),
                      .operation = &half,
                      .handle = &half,
                      .fills_all = false,
                      .record = half.record(),
                      .group = &stream_->group().name()},
                     call.sends ? Tensor() : call.buffer, call.sends ? call.buffer : Tensor());
  }
  return stream_->hand_out(half);
}

}  // namespace shardsim
