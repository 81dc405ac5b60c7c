#include <string>
#include <utility>

#include "backends/fiber/fiber_world.hpp"
#include "backends/fiber/mailbox.hpp"

namespace shardsim {

FiberTaggedMessages::FiberTaggedMessages(FiberGroup& everyone, int member)
    : stream_(std::make_unique<TaggedStream>(everyone, member, CallSite{})) {}

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

void FiberTaggedMessages::refuse(const MessageHalf::Call& call) const {
  const std::string name = call.sends ? "send" : "recv";
  Diagnosis diagnosis = stream_->group().report("ARG_RANGE", stream_->rank(), name, call.site);
  diagnosis.summary = name + " on rank " + std::to_string(rank()) + ": ";
  if (!call.buffer.defined()) {
    diagnosis.summary += "`buffer` is an undefined tensor";
    diagnosis.hint = kUndefinedTensorHint;
  } else {
    diagnosis.summary +=
        "peer is " + std::to_string(call.peer) + ", tag is " + std::to_string(call.tag);
    diagnosis.hint = "ranks are 0 to " + std::to_string(size() - 1) +
                     ", tags 0 or more; receives may ask for kAnySource and kAnyTag";
  }
  throw CommunicationError(std::move(diagnosis));
}

Work FiberTaggedMessages::post(const MessageHalf::Call& call) {
  FiberWorld& world = stream_->group().world();
  const std::int64_t number = 2 * num_halves_[call.sends ? 1 : 0]++ + (call.sends ? 1 : 0);
  if (!world.options().repairs.empty()) {
    const CallRepair* const repair =
        world.repair_of_half(CallRepair::kTagged, number, stream_->rank().index());
    if (repair != nullptr && repair->kind == CallRepair::Kind::leave_out_half) return {};
    if (repair != nullptr && repair->peer != call.peer) {
      return post_half({.sends = call.sends,
                        .member = call.member,
                        .peer = repair->peer,
                        .tag = call.tag,
                        .buffer = call.buffer,
                        .status = call.status,
                        .options = call.options,
                        .site = call.site});
    }
  }
  return post_half(call);
}

Work FiberTaggedMessages::post_half(const MessageHalf::Call& call) {
  FiberGroup& everyone = stream_->group();
  FiberWorld& world = everyone.world();
  const int least = call.sends ? 0 : -1;  // kAnySource, kAnyTag.
  const bool in_range = call.peer >= least && call.peer < everyone.size() && call.tag >= least;
  if (!in_range || !call.buffer.defined()) refuse(call);
  RankState& state = stream_->rank();
  const Time ready = state.clock().post(false, world.rules());
  RankHash& hash = state.hash();
  hash.add(static_cast<std::uint64_t>(call.sends) << 63U |
           static_cast<std::uint64_t>(static_cast<std::uint32_t>(call.peer)) << 24U |
           static_cast<std::uint64_t>(static_cast<std::uint32_t>(call.tag)));
  const bool labelled = *call.options.label != '\0';  // Mostly not.
  hash.add(static_cast<std::uint64_t>(call.buffer.numel()) ^
           (labelled ? hash_label(call.options.label) : 0));
  MessageHalf& half = world.mailbox().post(everyone, call, ready);
  if (world.is_watched()) {
    world.watch_post({.rank = state.index(),
                      .operation = &half,
                      .handle = &half,
                      .fills_all = false,
                      .record = half.record(),
                      .group = &everyone.name()},
                     call.sends ? Tensor() : call.buffer, call.sends ? call.buffer : Tensor());
  }
  return stream_->hand_out(half);
}

}  // namespace shardsim
