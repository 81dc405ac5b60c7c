#include "backends/fiber/fiber_communicator.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "backends/argument_check.hpp"
#include "backends/fiber/fiber_tagged_messages.hpp"
#include "backends/fiber/fiber_watch.hpp"
#include "backends/fiber/fiber_world.hpp"
#include "backends/trace_hash.hpp"

namespace shardsim {

FiberCommunicator::FiberCommunicator(FiberGroup& group, int member, CallSite made_at)
    : group_(group),
      member_(member),
      rank_(group.world().engine().rank(group.world_rank(member))),
      stream_(std::make_unique<FiberStream>(group, member, made_at)) {
  group_.world().note_open(*stream_);
}

FiberCommunicator::~FiberCommunicator() {
  if (stream_->outlives_world()) return;
  group_.world().note_closed(*stream_);
  group_.world().retire(std::move(stream_));
}

std::unique_ptr<TaggedMessages> FiberCommunicator::tagged_messages() {
  require_unfolded("a tagged message");
  return std::make_unique<FiberTaggedMessages>(group_.world().everyone(), group_, member_);
}

Diagnosis FiberCommunicator::diagnosis_of(const std::string& action, CallSite site) const {
  return group_.report("", rank_, action, site);
}

// Data for named peers are unknown if their ranks do not run.
void FiberCommunicator::require_unfolded(const char* call) const {
  if (!group_.is_folded()) return;
  refuse_folded(std::string(call) + " in group " + name() + ", not all of whose ranks run");
}

// --- Watching ----------------------------------------------------------------------------------

void FiberCommunicator::watch(const FiberOperation& operation, const FiberOperation& handle,
                              const CallRecord& record, const CallOptions& options,
                              const Tensor& output, const Tensor& input,
                              std::int64_t own_chunk) const {
  const auto* after = options.after == nullptr
                          ? nullptr
                          : static_cast<const FiberOperation*>(options.after->operation());
  group_.world().watch_post({.rank = rank_.index(),
                             .operation = &operation,
                             .handle = &handle,
                             .stream = stream_.get(),
                             .after = after,
                             .record = record,
                             .group = &group_.name()},
                            output, input, own_chunk);
}

// Offset of this member's chunk in the full buffer.
std::int64_t FiberCommunicator::own_offset(std::int64_t count, const CallOptions& options) const {
  if (options.counts.empty()) return member_ * (count / size());
  return std::accumulate(options.counts.begin(), options.counts.begin() + member_, std::int64_t{0});
}

void FiberCommunicator::watch_collective(const CollectiveOperation& operation,
                                         const Call& call) const {
  const CallRecord& record = call.record;
  const CallOptions& options = *call.options;
  const Tensor& output = *call.output;
  const Tensor& input = *call.input;
  const bool at_root = record.root == member_;
  const CollectiveRow& row = operation.row();
  if (row.path == CollectivePath::none) return;
  const bool reads = row.root != RootRole::source || at_root;
  // A broadcast has one buffer, which has one direction.
  const bool writes = row.root == RootRole::target ? at_root : !row.in_place() || !at_root;
  watch(operation, operation, record, options, writes ? output : Tensor(), reads ? input : Tensor(),
        row.in_chunks() ? own_offset(record.count, options) : BufferWatch::kNowhere);
}

// --- Posting -----------------------------------------------------------------------------------

Work FiberCommunicator::post(const Call& call) {
  rank_.settle_streams();
  switch (call.kind) {
    case CallKind::collective:
      return post_collective(call);
    case CallKind::batch:
      return post_batch(call);
    case CallKind::send:
    case CallKind::recv:
      break;
  }
  P2pOp changed{};
  const P2pOp* const half = mended(call.halves.front(), changed);
  if (half == nullptr) return {};
  FiberOperation& operation = post_transfer(*half, call);
  stream_->set_last(operation);
  return stream_->hand_out(operation);
}

const P2pOp* FiberCommunicator::mended(const P2pOp& half, P2pOp& changed) {
  const std::int64_t number = num_halves_++;
  const FiberWorld& world = group_.world();
  if (world.options().repairs.empty()) return &half;
  const CallRepair* const repair = world.repair_of_half(group_.id(), number, rank_.index());
  if (repair == nullptr) return &half;
  if (repair->kind == CallRepair::Kind::leave_out_half) return nullptr;
  changed = half;
  changed.peer = repair->peer;
  return &changed;
}

CollectiveOperation& FiberCommunicator::open(CollectiveKind kind, const CallRecord& record) {
  FiberWorld& world = group_.world();
  std::int64_t sequence = group_.next_sequence(member_);
  if (!world.options().repairs.empty() &&
      world.repair_of(CallRepair::Kind::excuse, group_.id(), sequence, rank_.index()) != nullptr) {
    group_.pass_over(kind, sequence, record);
    sequence = group_.next_sequence(member_);
  }
  CollectiveOperation& operation = group_.collective(kind, sequence, record);
  add_call(rank_.hash(), group_.path(), static_cast<unsigned>(kind), record,
           operation.label_hash(record.label));
  return operation;
}

Work FiberCommunicator::enter(CollectiveOperation& operation, const Call& call) {
  const CallOptions& options = *call.options;
  if (group_.world().options().has_data) operation.set_buffers(member_, *call.output, *call.input);
  if (operation.join(member_, call.record)) {
    if (!options.counts.empty()) operation.set_counts(options.counts);
    if (!options.padding_at.empty()) operation.set_padding_at(options.padding_at);
    stream_->order(operation, options.after);
    if (group_.world().is_watched()) {
      watch_collective(operation, call);
      group_.world().watch_order(rank_, operation, call.record.site, options.after);
    }
  }
  stream_->set_last(operation);
  rank_.clock().begin_collective(group_.world().rules());
  return stream_->hand_out(operation);
}

Work FiberCommunicator::post_collective(const Call& call) {
  if (!group_.world().options().repairs.empty() &&
      group_.world().leaves_out(group_.id(), group_.num_collectives(member_), rank_.index())) {
    return {};
  }
  const bool splits = row_of(call.collective).path == CollectivePath::pairs;
  if (splits) require_unfolded(call.record.name);
  CollectiveOperation& operation = open(call.collective, call.record);
  if (splits) {
    for (const std::int64_t count : call.send_counts) rank_.hash().add(count);
    for (const std::int64_t count : call.recv_counts) rank_.hash().add(count);
    operation.set_splits(member_, call.send_counts, call.recv_counts, call.record.site);
  }
  return enter(operation, call);
}

Work FiberCommunicator::post_batch(const Call& call) {
  // The batch itself moves nothing: each half says how its bytes count.
  CallRecord record = call.record;
  record.traffic = TrafficClass::payload;
  add_call(rank_.hash(), group_.path(), kBatchCode, record, hash_label(record.label));
  JoinOperation& join = group_.join(member_, record);
  join.expect(1);  // Held open until all parts are in.
  if (call.halves.empty()) {
    stream_->order(join, call.options->after);
    stream_->set_last(join);
    return stream_->hand_out(join);
  }
  for (const P2pOp& given : call.halves) {
    P2pOp changed{};
    const P2pOp* const half = mended(given, changed);
    if (half == nullptr) continue;
    FiberOperation& part = post_transfer(*half, call, &join);
    join.add_part(part);
    join.expect(1);
    join.follow(group_.world().engine(), part);
  }
  stream_->set_last(join);
  join.settle(group_.world().engine(), Time());
  return stream_->hand_out(join);
}

FiberOperation& FiberCommunicator::post_transfer(const P2pOp& half, const Call& call,
                                                 const FiberOperation* handle) {
  const CallOptions& options = *call.options;
  const bool sends = half.kind == P2pOp::Kind::send;
  const CallRecord record{.name = sends ? "send" : "recv",
                          .dtype = half.buffer.dtype(),
                          .root = half.peer,
                          .count = half.buffer.numel(),
                          .label = options.label,
                          .traffic = options.traffic,
                          .site = call.record.site};
  require_unfolded(record.name);
  add_call(rank_.hash(), group_.path(), sends ? kSendCode : kRecvCode, record,
           hash_label(record.label));
  TransferOperation& transfer = sends ? group_.transfer(member_, half.peer, true)
                                      : group_.transfer(half.peer, member_, false);
  const bool buffered = sends && group_.world().sends_ahead(rank_.index(), num_sends_++);
  FiberOperation& operation =
      buffered ? post_buffered_send(transfer, record, half.buffer, options) : transfer;
  if (!buffered && transfer.join(sends, record, half.buffer, num_halves_ - 1)) {
    stream_->order(transfer, options.after);
  }
  if (group_.world().is_watched()) {
    watch(operation, handle == nullptr ? operation : *handle, record, options,
          sends ? Tensor() : half.buffer, sends ? half.buffer : Tensor(), BufferWatch::kNowhere);
  }
  return operation;
}

// The sender's part ends on its own; the message waits for its receiver with a copy of the data.
FiberOperation& FiberCommunicator::post_buffered_send(TransferOperation& transfer,
                                                      const CallRecord& record,
                                                      const Tensor& buffer,
                                                      const CallOptions& options) {
  Engine& engine = group_.world().engine();
  transfer.set_buffered();
  JoinOperation& departure = group_.join(member_, record);
  departure.set_cost(group_.world().network().transfer(
      group_.world_rank(member_), group_.world_rank(record.root), buffer.num_bytes(), rank_.now()));
  departure.set_trace_id(transfer.trace_id());
  if (record.root != member_) departure.set_sent(record.root, buffer.num_bytes());
  departure.expect(1);
  const bool fits = transfer.join(true, record, unwatched_copy(buffer), num_halves_ - 1);
  if (fits) transfer.follow(engine, departure);
  transfer.release();  // The sender's interest in it ends here.
  stream_->order(departure, options.after);
  return departure;
}

// --- Groups ------------------------------------------------------------------------------------

std::unique_ptr<Communicator> FiberCommunicator::split(int color, int key, const std::string& name,
                                                       CallSite site) {
  ArgumentCheck(*this, collective::kSplit.name, site).color(color);
  rank_.settle_streams();
  FiberWorld& world = group_.world();
  if (!world.options().repairs.empty() &&
      world.leaves_out(group_.id(), group_.num_collectives(member_), rank_.index())) {
    const std::uint64_t id = id_of_child(group_.id(), -1, rank_.index());
    FiberGroup& own = world.add_group({.id = id, .path = id, .name = name}, {rank_.index()});
    return std::make_unique<FiberCommunicator>(own, 0, site);
  }
  const Tensor none;
  // Reports quote labels when the caller's string is long gone.
  const CallOptions options{.label = group_.world().keep_name(name),
                            .traffic = TrafficClass::scalar};
  const Call call{.collective = collective::kSplit,
                  .record = {.name = collective::kSplit.name,
                             .count = 0,
                             .label = options.label,
                             .traffic = options.traffic,
                             .site = site},
                  .options = &options,
                  .output = &none,
                  .input = &none};
  CollectiveOperation& operation = open(call.collective, call.record);
  rank_.hash().add_own(choice_word(color, key));
  operation.set_choice(member_, color, key);
  Work work = enter(operation, call);
  // The members' choices are read before the last of them frees the operation.
  group_.world().engine().await(rank_, operation);
  const auto [child, member] = group_.child(operation, name, member_);
  work.wait();
  if (child == nullptr) return nullptr;
  return std::make_unique<FiberCommunicator>(*child, member, site);
}

}  // namespace shardsim
