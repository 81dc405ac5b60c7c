#include "backends/fiber/fiber_communicator.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "backends/fiber/buffer_watch.hpp"
#include "backends/fiber/fiber_world.hpp"

namespace shardsim {

namespace {

// What a call is, in one word of the trace hash. Together with the count, the label and what only
// some calls have, it covers all that members agree on; call sites are left out on purpose.
std::uint64_t hash_word(const FiberGroup& group, unsigned code, const CallRecord& record) {
  const std::uint64_t fields = code | static_cast<std::uint64_t>(record.dtype) << 8U |
                               static_cast<std::uint64_t>(record.reduce) << 16U |
                               static_cast<std::uint64_t>(record.traffic) << 24U |
                               static_cast<std::uint64_t>(record.root + 1) << 32U;
  return group.id() ^ fields;
}

// Codes of calls that are no collectives.
constexpr unsigned kBatchCode = 0xFD;
constexpr unsigned kSendCode = 0xFE;
constexpr unsigned kRecvCode = 0xFF;

}  // namespace

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

void FiberCommunicator::refuse(const char* call, const std::string& what, const std::string& hint,
                               CallSite site) const {
  Diagnosis diagnosis;
  diagnosis.code = "ARG_RANGE";
  diagnosis.summary = std::string(call) + " on rank " + std::to_string(rank_.index()) + ": " + what;
  diagnosis.group = group_.name();
  diagnosis.members = group_.all_world_ranks();
  diagnosis.time = rank_.now();
  diagnosis.sides = {{.ranks = {rank_.index()}, .action = call, .site = site}};
  diagnosis.hint = hint;
  throw CommunicationError(std::move(diagnosis));
}

// What ranks send each other by name cannot be told for those that do not run.
void FiberCommunicator::require_unfolded(const char* call) const {
  if (!group_.is_folded()) return;
  throw Error(ExitCode::internal, "E7006",
              std::string(call) + " in group " + name() + ", not all of whose ranks run",
              "use execution.fold \"off\", and please report this scenario");
}

// --- Posting -----------------------------------------------------------------------------------

void FiberCommunicator::order(FiberOperation& operation, const CallOptions& options) {
  if (options.after != nullptr && !options.after->pending()) {
    refuse(operation.record().name, "`after` is a Work that was waited for already",
           "leave `after` out: waiting has moved the compute stream there", options_site_);
  }
  stream_->order(operation, options.after);
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
                             .group = group_.name()},
                            output, input, own_chunk);
}

// Where this member's chunk begins in the full buffer.
std::int64_t FiberCommunicator::own_offset(std::int64_t count, const CallOptions& options) const {
  if (options.counts.empty()) return member_ * (count / size());
  return std::accumulate(options.counts.begin(), options.counts.begin() + member_, std::int64_t{0});
}

void FiberCommunicator::watch_collective(const CollectiveOperation& operation,
                                         const CallRecord& record, const CallOptions& options,
                                         const Tensor& output, const Tensor& input) const {
  const bool at_root = record.root == member_;
  std::int64_t own = BufferWatch::kNowhere;
  switch (operation.kind()) {
    case CollectiveKind::barrier:
    case CollectiveKind::split:
      return;
    case CollectiveKind::broadcast:  // One buffer, which has one direction.
      return watch(operation, operation, record, options, at_root ? Tensor() : output,
                   at_root ? input : Tensor(), own);
    case CollectiveKind::reduce:
      return watch(operation, operation, record, options, at_root ? output : Tensor(), input, own);
    case CollectiveKind::gather:
    case CollectiveKind::scatter:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_gather:
      own = own_offset(record.count, options);
      break;
    case CollectiveKind::all_reduce:
    case CollectiveKind::all_to_all:
      break;
  }
  const bool reads = operation.kind() != CollectiveKind::scatter || at_root;
  const bool writes = operation.kind() != CollectiveKind::gather || at_root;
  watch(operation, operation, record, options, writes ? output : Tensor(), reads ? input : Tensor(),
        own);
}

CollectiveOperation& FiberCommunicator::open(CollectiveKind kind, CallRecord& record,
                                             const CallOptions& options) {
  options_site_ = record.site;
  record.name = name_of(kind);
  complete(record, options);
  CollectiveOperation& operation = group_.collective(kind, group_.next_sequence(member_), record);
  RollingHash& hash = rank_.hash();
  hash.add(hash_word(group_, static_cast<unsigned>(kind), record));
  hash.add(static_cast<std::uint64_t>(record.count) ^ operation.label_hash(record.label));
  if (record.padding != 0) hash.add(record.padding);
  if (record.counts_hash != 0) hash.add(record.counts_hash);
  return operation;
}

Work FiberCommunicator::post(CollectiveOperation& operation, const CallOptions& options,
                             const CallRecord& record, const Tensor& output, const Tensor& input) {
  if (group_.world().options().has_data) operation.set_buffers(member_, output, input);
  if (operation.join(member_, record)) {
    if (!options.counts.empty()) operation.set_counts(options.counts);
    if (!options.padding_at.empty()) operation.set_padding_at(options.padding_at);
    order(operation, options);
    if (group_.world().is_watched()) {
      watch_collective(operation, record, options, output, input);
      group_.world().watch_order(rank_, operation, record.site, options.after);
    }
  }
  stream_->set_last(operation);
  group_.world().begin(rank_);
  return stream_->hand_out(operation);
}

Work FiberCommunicator::collective(CollectiveKind kind, CallRecord&& record,
                                   const CallOptions& options, const Tensor& output,
                                   const Tensor& input) {
  return post(open(kind, record, options), options, record, output, input);
}

Work FiberCommunicator::all_reduce(const Tensor& buffer, ReduceOp op, const CallOptions& options,
                                   CallSite site) {
  check_defined("all_reduce", "`buffer`", buffer, site);
  check_reduce_op("all_reduce", op, site);
  return collective(CollectiveKind::all_reduce,
                    {.reduce = op,
                     .reduces = true,
                     .dtype = buffer.dtype(),
                     .count = buffer.numel(),
                     .site = site},
                    options, buffer, buffer);
}

Work FiberCommunicator::reduce_scatter(const Tensor& output, const Tensor& input, ReduceOp op,
                                       const CallOptions& options, CallSite site) {
  check_chunks("reduce_scatter", options, input, output, site);
  check_reduce_op("reduce_scatter", op, site);
  return collective(
      CollectiveKind::reduce_scatter,
      {.reduce = op, .reduces = true, .dtype = input.dtype(), .count = input.numel(), .site = site},
      options, output, input);
}

Work FiberCommunicator::all_gather(const Tensor& output, const Tensor& input,
                                   const CallOptions& options, CallSite site) {
  check_chunks("all_gather", options, output, input, site);
  return collective(CollectiveKind::all_gather,
                    {.dtype = input.dtype(), .count = output.numel(), .site = site}, options,
                    output, input);
}

Work FiberCommunicator::all_to_all(const Tensor& output, const Tensor& input,
                                   std::span<const std::int64_t> send_counts,
                                   std::span<const std::int64_t> recv_counts,
                                   const CallOptions& options, CallSite site) {
  check_splits(output, input, send_counts, recv_counts, site);
  require_unfolded("all_to_all");
  std::vector<std::int64_t> equal;
  if (send_counts.empty()) {
    equal.assign(static_cast<std::size_t>(size()), input.numel() / size());
    send_counts = recv_counts = equal;
  }
  // Members may send different amounts: the record agrees on the dtype only.
  CallRecord record{.dtype = input.dtype(), .count = 0, .site = site};
  CollectiveOperation& operation = open(CollectiveKind::all_to_all, record, options);
  for (const std::int64_t count : send_counts) rank_.hash().add(count);
  for (const std::int64_t count : recv_counts) rank_.hash().add(count);
  operation.set_splits(member_, send_counts, recv_counts, site);
  return post(operation, options, record, output, input);
}

Work FiberCommunicator::broadcast(const Tensor& buffer, int root, const CallOptions& options,
                                  CallSite site) {
  check_peer("broadcast", root, site);
  check_defined("broadcast", "`buffer`", buffer, site);
  return collective(CollectiveKind::broadcast,
                    {.dtype = buffer.dtype(), .root = root, .count = buffer.numel(), .site = site},
                    options, buffer, buffer);
}

Work FiberCommunicator::reduce(const Tensor& buffer, ReduceOp op, int root,
                               const CallOptions& options, CallSite site) {
  check_peer("reduce", root, site);
  check_defined("reduce", "`buffer`", buffer, site);
  check_reduce_op("reduce", op, site);
  return collective(CollectiveKind::reduce,
                    {.reduce = op,
                     .reduces = true,
                     .dtype = buffer.dtype(),
                     .root = root,
                     .count = buffer.numel(),
                     .site = site},
                    options, buffer, buffer);
}

Work FiberCommunicator::gather(const Tensor& output, const Tensor& input, int root,
                               const CallOptions& options, CallSite site) {
  check_peer("gather", root, site);
  const std::int64_t full = full_count("gather", options, root, output, input, site);
  return collective(CollectiveKind::gather,
                    {.dtype = input.dtype(), .root = root, .count = full, .site = site}, options,
                    output, input);
}

Work FiberCommunicator::scatter(const Tensor& output, const Tensor& input, int root,
                                const CallOptions& options, CallSite site) {
  check_peer("scatter", root, site);
  const std::int64_t full = full_count("scatter", options, root, input, output, site);
  return collective(CollectiveKind::scatter,
                    {.dtype = output.dtype(), .root = root, .count = full, .site = site}, options,
                    output, input);
}

Work FiberCommunicator::barrier(const CallOptions& options, CallSite site) {
  return collective(CollectiveKind::barrier, {.count = 0, .site = site}, options, {}, {});
}

// --- Point-to-point ----------------------------------------------------------------------------

Work FiberCommunicator::send(const Tensor& buffer, int peer, const CallOptions& options,
                             CallSite site) {
  return single({P2pOp::Kind::send, buffer, peer}, options, site);
}

Work FiberCommunicator::recv(const Tensor& buffer, int peer, const CallOptions& options,
                             CallSite site) {
  return single({P2pOp::Kind::recv, buffer, peer}, options, site);
}

Work FiberCommunicator::single(const P2pOp& half, const CallOptions& options, CallSite site) {
  FiberOperation& operation = post_transfer(half, options, site);
  stream_->set_last(operation);
  return stream_->hand_out(operation);
}

Work FiberCommunicator::batch(std::span<const P2pOp> operations, const CallOptions& options,
                              CallSite site) {
  const CallRecord record{.name = "batch",
                          .count = static_cast<std::int64_t>(operations.size()),
                          .label = options.label,
                          .site = site};
  rank_.hash().add(hash_word(group_, kBatchCode, record));
  rank_.hash().add(static_cast<std::uint64_t>(record.count) ^ hash_label(record.label));
  JoinOperation& join = group_.join(member_, record);
  if (operations.empty()) {
    join.expect(1);
    order(join, options);
    stream_->set_last(join);
    return stream_->hand_out(join);
  }
  join.expect(1);  // Held open until all parts are in.
  for (const P2pOp& half : operations) {
    FiberOperation& part = post_transfer(half, options, site, &join);
    join.add_part(part);
    join.expect(1);
    join.follow(group_.world().engine(), part);
  }
  stream_->set_last(join);
  join.settle(group_.world().engine(), Time());
  return stream_->hand_out(join);
}

FiberOperation& FiberCommunicator::post_transfer(const P2pOp& half, const CallOptions& options,
                                                 CallSite site, const FiberOperation* handle) {
  options_site_ = site;
  const bool sends = half.kind == P2pOp::Kind::send;
  const CallRecord record{.name = sends ? "send" : "recv",
                          .dtype = half.buffer.dtype(),
                          .root = half.peer,
                          .count = half.buffer.numel(),
                          .label = options.label,
                          .traffic = options.traffic,
                          .site = site};
  check_peer(record.name, half.peer, site);
  check_defined(record.name, "`buffer`", half.buffer, site);
  require_unfolded(record.name);
  if (options.padding != 0) check_padding(record.name, options, 0, site);
  rank_.hash().add(hash_word(group_, sends ? kSendCode : kRecvCode, record));
  rank_.hash().add(static_cast<std::uint64_t>(record.count) ^ hash_label(record.label));
  TransferOperation& transfer = sends ? group_.transfer(member_, half.peer, true)
                                      : group_.transfer(half.peer, member_, false);
  const bool buffered = sends && group_.world().sends_ahead(rank_.index(), num_sends_++);
  FiberOperation& operation =
      buffered ? post_buffered_send(transfer, record, half.buffer, options) : transfer;
  if (!buffered && transfer.join(sends, record, half.buffer)) order(transfer, options);
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
  Tensor copy = Tensor::allocate(nullptr, MemoryCategory::comm, buffer.shape(), buffer.dtype(),
                                 !group_.world().options().has_data);
  if (copy.has_data()) {
    std::copy_n(buffer.wire_data(), static_cast<std::size_t>(buffer.num_bytes()), copy.data());
  }
  transfer.set_buffered();
  JoinOperation& departure = group_.join(member_, record);
  departure.set_cost(group_.world().network().transfer(
      group_.world_rank(member_), group_.world_rank(record.root), buffer.num_bytes(), rank_.now()));
  departure.set_trace_id(transfer.trace_id());
  if (record.root != member_) departure.set_sent(record.root, buffer.num_bytes());
  departure.expect(1);
  const bool fits = transfer.join(true, record, copy);
  if (fits) transfer.follow(engine, departure);
  transfer.release();  // The sender's interest in it ends here.
  order(departure, options);
  return departure;
}

// --- Groups ------------------------------------------------------------------------------------

std::unique_ptr<Communicator> FiberCommunicator::split(int color, int key, const std::string& name,
                                                       CallSite site) {
  check_color(color, site);
  // Reports quote labels when the caller's string is long gone.
  const char* label = group_.world().keep_name(name);
  CallRecord record{.count = 0, .label = label, .site = site};
  const CallOptions options{.label = label, .traffic = TrafficClass::scalar};
  CollectiveOperation& operation = open(CollectiveKind::split, record, options);
  rank_.hash().add(static_cast<std::uint64_t>(static_cast<std::uint32_t>(color)) << 32U |
                   static_cast<std::uint32_t>(key));
  operation.set_choice(member_, color, key);
  Work work = post(operation, options, record, {}, {});
  // The members' choices are read before the last of them frees the operation.
  group_.world().engine().wait(rank_, operation);
  const auto [child, member] = group_.child(operation, name, member_);
  work.wait();
  if (child == nullptr) return nullptr;
  return std::make_unique<FiberCommunicator>(*child, member, site);
}

}  // namespace shardsim
