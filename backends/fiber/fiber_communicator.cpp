#include "backends/fiber/fiber_communicator.hpp"

#include <algorithm>
#include <exception>
#include <string_view>
#include <utility>

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

FiberCommunicator::FiberCommunicator(FiberGroup& group, int member)
    : group_(group), member_(member), rank_(group.world().engine().rank(group.world_rank(member))) {
  for (const int other : group.stood_for(member)) others_.push_back({other, {}});
  if (rank_.trace() != nullptr) {
    track_ = static_cast<int>(rank_.trace()->tracks.size());
    rank_.trace()->tracks.push_back({.name = group.name(), .slices = {}});
  }
}

FiberCommunicator::~FiberCommunicator() { group_.world().retire(*this); }

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
  Engine& engine = group_.world().engine();
  rank_.issue(group_.world().call_price());
  Time ready = options.after == nullptr ? rank_.now() : rank_.issued();
  // All members of a collective mostly follow the same operation of this stream: once is enough.
  if (last_ == nullptr || last_->resolved()) {
    ready = max(ready, last_ == nullptr ? stream_free_ : last_->end());
  } else if (!last_->is_followed_by(operation)) {
    operation.expect(1);
    operation.follow(engine, *last_);
  }
  if (options.after != nullptr) {
    if (!options.after->pending()) {
      refuse(operation.record().name, "`after` is a Work that was waited for already",
             "leave `after` out: waiting has moved the compute stream there", options_site_);
    }
    operation.expect(1);
    operation.follow(engine, *static_cast<FiberOperation*>(options.after->operation()));
  }
  operation.settle(engine, ready);
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
  }
  last_ = &operation;
  group_.world().begin(rank_);
  return {*this, static_cast<FiberOperation*>(&operation)};
}

Work FiberCommunicator::collective(CollectiveKind kind, CallRecord&& record,
                                   const CallOptions& options, const Tensor& output,
                                   const Tensor& input) {
  return post(open(kind, record, options), options, record, output, input);
}

Work FiberCommunicator::all_reduce(const Tensor& buffer, ReduceOp op, const CallOptions& options,
                                   CallSite site) {
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
  return collective(CollectiveKind::broadcast,
                    {.dtype = buffer.dtype(), .root = root, .count = buffer.numel(), .site = site},
                    options, buffer, buffer);
}

Work FiberCommunicator::reduce(const Tensor& buffer, ReduceOp op, int root,
                               const CallOptions& options, CallSite site) {
  check_peer("reduce", root, site);
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
  last_ = &operation;
  return {*this, &operation};
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
    last_ = &join;
    return {*this, static_cast<FiberOperation*>(&join)};
  }
  join.expect(1);  // Held open until all parts are in.
  for (const P2pOp& half : operations) {
    FiberOperation& part = post_transfer(half, options, site);
    join.add_part(part);
    join.expect(1);
    join.follow(group_.world().engine(), part);
  }
  last_ = &join;
  join.settle(group_.world().engine(), Time());
  return {*this, static_cast<FiberOperation*>(&join)};
}

FiberOperation& FiberCommunicator::post_transfer(const P2pOp& half, const CallOptions& options,
                                                 CallSite site) {
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
  require_unfolded(record.name);
  if (options.padding != 0) check_padding(record.name, options, 0, site);
  rank_.hash().add(hash_word(group_, sends ? kSendCode : kRecvCode, record));
  rank_.hash().add(static_cast<std::uint64_t>(record.count) ^ hash_label(record.label));
  TransferOperation& transfer = sends ? group_.transfer(member_, half.peer, true)
                                      : group_.transfer(half.peer, member_, false);
  if (sends && group_.world().options().buffered_sends) {
    return post_buffered_send(transfer, record, half.buffer, options);
  }
  if (transfer.join(sends, record, half.buffer)) order(transfer, options);
  return transfer;
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
    std::copy_n(buffer.data(), static_cast<std::size_t>(buffer.num_bytes()), copy.data());
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

// --- Waiting -----------------------------------------------------------------------------------

void FiberCommunicator::wait(void* token) {
  FiberOperation& operation = *static_cast<FiberOperation*>(token);
  group_.world().wait(rank_, operation);
  if (last_ == &operation) last_ = nullptr;
  stream_free_ = max(stream_free_, operation.end());
  account(operation);
  operation.release();
}

void FiberCommunicator::count(FiberOperation& operation, int member,
                              const FiberOperation::Moved& moved, TrafficCounters& counters) {
  if (operation.record().traffic == TrafficClass::scalar) {
    counters.scalar_sent += moved.payload.sent;
    counters.scalar_received += moved.payload.received;
    counters.scalar_messages += moved.payload.messages;
    ++counters.scalar_calls;
  } else {
    counters.payload_sent += moved.payload.sent;
    counters.payload_received += moved.payload.received;
    counters.padding_sent += moved.padding_sent;
    if (moved.payload.sent > 0) {
      // What a batch moves are its sends; that is what real processes count, too.
      const std::string_view name = operation.record_of(member).name;
      group_.add_sent(name == "batch" ? "send" : name.data(), moved.payload.sent);
    }
    counters.to_next += moved.payload.to_next;
    counters.from_previous += moved.payload.from_previous;
    ++counters.calls;
    operation.count_off_ring(member);
  }
  counters.messages += moved.payload.messages;
}

void FiberCommunicator::account(FiberOperation& operation) {
  const FiberOperation::Moved moved = operation.moved(member_);
  count(operation, member_, moved, counters_);
  for (StoodFor& other : others_) {
    count(operation, other.member, operation.moved(other.member), other.counters);
  }
  // Making groups is part of setting up, not of training.
  if (operation.record().name != name_of(CollectiveKind::split)) {
    group_.world().add_busy(rank_.index(), operation.end() - operation.start());
  }
  if (track_ >= 0) {
    rank_.trace()->tracks[static_cast<std::size_t>(track_)].slices.push_back(
        {.name = operation.record_of(member_).name,
         .begin = operation.start(),
         .end = operation.end(),
         .bytes = moved.payload.sent + moved.padding_sent,
         .label = operation.record().label,
         .operation = operation.trace_id()});
  }
}

void FiberCommunicator::abandon(void* token) noexcept {
  FiberOperation& operation = *static_cast<FiberOperation*>(token);
  Engine& engine = group_.world().engine();
  // While a stack unwinds, handles are dropped for another reason, which is reported instead.
  if (engine.cancelling() || std::uncaught_exceptions() > 0) return;
  Diagnosis diagnosis;
  diagnosis.code = "REQ_LEAK";
  diagnosis.summary = "rank " + std::to_string(rank_.index()) + " dropped the handle of " +
                      operation.record().describe() + " without waiting for it";
  diagnosis.group = group_.name();
  diagnosis.members = group_.all_world_ranks();
  diagnosis.sequence = operation.sequence();
  diagnosis.time = rank_.now();
  diagnosis.sides = {{.ranks = {rank_.index()},
                      .action = operation.record().describe(),
                      .site = operation.record().site}};
  diagnosis.hint = "keep the Work that the call returns and wait() for it";
  engine.fail(std::move(diagnosis), rank_.index());
}

std::unique_ptr<Communicator> FiberCommunicator::split(int color, int key, const std::string& name,
                                                       CallSite site) {
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
  return std::make_unique<FiberCommunicator>(*child, member);
}

}  // namespace shardsim
