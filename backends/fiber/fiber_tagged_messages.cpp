#include "backends/fiber/fiber_tagged_messages.hpp"

#include <string>
#include <utility>

#include "backends/fiber/fiber_world.hpp"
#include "backends/fiber/mailbox.hpp"

namespace shardsim {

namespace {

// Probes have no buffer, and no options.
const Tensor kNoBuffer;
const CallOptions kNoOptions;

const char* name_of(const MessageHalf::Call& call) {
  if (call.probes) return "probe";
  return call.sends ? "send" : "recv";
}

// The same call with another peer: calls have references, and are not assigned.
MessageHalf::Call to_peer(const MessageHalf::Call& call, int peer) {
  return {.sends = call.sends,
          .probes = call.probes,
          .channel = call.channel,
          .member = call.member,
          .peer = peer,
          .tag = call.tag,
          .buffer = call.buffer,
          .status = call.status,
          .options = call.options,
          .site = call.site};
}

}  // namespace

FiberTaggedMessages::FiberTaggedMessages(FiberGroup& everyone, const FiberGroup& channel,
                                         int member)
    : channel_(channel),
      member_(member),
      stream_(std::make_unique<TaggedStream>(everyone, channel.world_rank(member), CallSite{})) {}

FiberTaggedMessages::~FiberTaggedMessages() { stream_->group().world().retire(std::move(stream_)); }

int FiberTaggedMessages::size() const { return channel_.size(); }

// A peer out of range stays as it is, and is refused.
int FiberTaggedMessages::world_rank_of(int peer) const {
  return peer >= 0 && peer < size() ? channel_.world_rank(peer) : peer;
}

Work FiberTaggedMessages::send(const Tensor& buffer, int peer, int tag, const CallOptions& options,
                               CallSite site) {
  return post({.sends = true,
               .channel = &channel_,
               .member = stream_->member(),
               .peer = peer,
               .tag = tag,
               .buffer = buffer,
               .options = options,
               .site = site});
}

Work FiberTaggedMessages::recv(const Tensor& buffer, int source, int tag, MessageStatus* status,
                               const CallOptions& options, CallSite site) {
  return post({.sends = false,
               .channel = &channel_,
               .member = stream_->member(),
               .peer = source,
               .tag = tag,
               .buffer = buffer,
               .status = status,
               .options = options,
               .site = site});
}

MessageStatus FiberTaggedMessages::probe(int source, int tag, DType dtype, CallSite site) {
  MessageStatus status;
  post_half(probing(source, tag, &status, site)).wait();
  status.count /= size_of(dtype);
  return status;
}

// It may end no work and hold up no other receive, so it is no receive of the mailbox: the rank
// comes to its own time, by which all that is sent until then has been posted, and looks.
std::optional<MessageStatus> FiberTaggedMessages::try_probe(int source, int tag, DType dtype,
                                                            CallSite site) {
  FiberWorld& world = stream_->group().world();
  RankState& rank = stream_->rank();
  const MessageHalf::Call call = probing(source, tag, nullptr, site);
  MessageHalf& look = world.mailbox().look(stream_->group(), call, begin(call));
  rank.settle_streams();
  Operation* const asked[] = {&look};
  world.engine().await_any(rank, asked, rank.now());
  const MessageHalf* const found = world.mailbox().found_by(look, rank.now());
  std::optional<MessageStatus> status;
  if (found != nullptr) {
    status = found->status();
    status->count = found->num_bytes() / size_of(dtype);
  }
  look.release();
  if (!status) stream_->poll();
  return status;
}

MessageHalf::Call FiberTaggedMessages::probing(int source, int tag, MessageStatus* status,
                                               CallSite site) const {
  const MessageHalf::Call call = {.sends = false,
                                  .probes = true,
                                  .channel = &channel_,
                                  .member = stream_->member(),
                                  .peer = source,
                                  .tag = tag,
                                  .buffer = kNoBuffer,
                                  .status = status,
                                  .options = kNoOptions,
                                  .site = site};
  require_in_range(call);
  return to_peer(call, world_rank_of(source));
}

void FiberTaggedMessages::require_in_range(const MessageHalf::Call& call) const {
  const int least = call.sends ? 0 : -1;  // kAnySource, kAnyTag.
  const bool in_range = call.peer >= least && call.peer < size() && call.tag >= least;
  if (in_range && (call.probes || call.buffer.defined())) return;
  const std::string name = name_of(call);
  Diagnosis diagnosis = channel_.report("ARG_RANGE", stream_->rank(), name, call.site);
  diagnosis.summary = name + " on rank " + std::to_string(stream_->member()) + ": ";
  if (in_range) {
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
  require_in_range(call);
  FiberWorld& world = stream_->group().world();
  const int rank = stream_->rank().index();
  const std::int64_t number = world.mailbox().next_call(rank, call.sends);
  int peer = world_rank_of(call.peer);
  if (!world.options().repairs.empty()) {
    const CallRepair* const repair =
        world.repair_of_half(CallRepair::kTagged, 2 * number + (call.sends ? 1 : 0), rank);
    if (repair != nullptr && repair->kind == CallRepair::Kind::leave_out_half) return {};
    if (repair != nullptr) peer = repair->peer;
  }
  // Among all ranks a peer is mostly as it was called, and the call needs no copy.
  return peer == call.peer ? post_half(call) : post_half(to_peer(call, peer));
}

Work FiberTaggedMessages::post_half(const MessageHalf::Call& call) {
  FiberGroup& everyone = stream_->group();
  FiberWorld& world = everyone.world();
  MessageHalf& half = world.mailbox().post(everyone, call, begin(call));
  if (world.is_watched() && !call.probes) {
    world.watch_post({.rank = stream_->rank().index(),
                      .operation = &half,
                      .handle = &half,
                      .fills_all = false,
                      .record = half.record(),
                      .group = &channel_.name()},
                     call.sends ? Tensor() : call.buffer, call.sends ? call.buffer : Tensor());
  }
  return stream_->hand_out(half);
}

// The call's words in the trace hash. When it may start.
Time FiberTaggedMessages::begin(const MessageHalf::Call& call) {
  RankState& state = stream_->rank();
  RankHash& hash = state.hash();
  hash.add(static_cast<std::uint64_t>(call.sends) << 63U |
           static_cast<std::uint64_t>(call.probes) << 62U |
           static_cast<std::uint64_t>(static_cast<std::uint32_t>(call.peer)) << 24U |
           static_cast<std::uint64_t>(static_cast<std::uint32_t>(call.tag)));
  const bool labelled = *call.options.label != '\0';  // Mostly not.
  const std::int64_t count = call.probes ? 0 : call.buffer.numel();
  hash.add(static_cast<std::uint64_t>(count) ^ (labelled ? hash_label(call.options.label) : 0));
  if (&channel_ != &stream_->group()) hash.add(channel_.path());
  return state.clock().post(false, stream_->group().world().rules());
}

}  // namespace shardsim
