#include "backends/message/message_communicator.hpp"

#include <algorithm>
#include <exception>
#include <limits>
#include <numeric>
#include <utility>

namespace shardsim {

namespace {

bool overlap_in_memory(const Tensor& a, const Tensor& b) {
  return a.data() < b.data() + b.num_bytes() && b.data() < a.data() + a.num_bytes();
}

}  // namespace

MessageCommunicator::MessageCommunicator(MessageRank& rank, MessageStream& stream)
    : rank_(rank),
      stream_(stream),
      layout_(rank.options().cluster, stream.transport->world_ranks()) {
  traffic_.name = stream.name;
  traffic_.members = layout_.members;
}

MessageCommunicator::~MessageCommunicator() { rank_.close(stream_, std::move(traffic_)); }

// --- Posting -----------------------------------------------------------------------------------

MessageCommunicator::Operation MessageCommunicator::make(CallRecord record,
                                                         const CallOptions& options,
                                                         MessagePlan plan, const Tensor& output,
                                                         const Tensor& input) {
  complete(record, options);
  Operation operation = std::make_shared<MessageOperation>(record, stream_.next_sequence++,
                                                           std::move(plan), output, input);
  if (options.padding != 0) operation->set_padding_at(options.padding_at);
  return operation;
}

Work MessageCommunicator::post(const Operation& operation, const CallOptions& options) {
  if (options.after != nullptr) {
    if (!options.after->pending()) {
      refuse(operation->record().name, "`after` is a Work that was waited for already",
             "leave `after` out: waiting has moved the compute stream there",
             operation->record().site);
    }
    operation->follow(
        static_cast<MessageOperation*>(options.after->operation())->shared_from_this());
  }
  rank_.post(stream_, operation);
  unwaited_.push_back(operation);
  return {*this, operation.get()};
}

Work MessageCommunicator::post_collective(const Operation& operation, CollectiveKind kind,
                                          const CallOptions& options,
                                          std::span<const std::int64_t> send_counts,
                                          std::span<const std::int64_t> receive_counts) {
  // Libraries count the elements of parts in 32 bits; what is more goes by our own messages.
  const bool countable = operation->record().count <= std::numeric_limits<std::int32_t>::max();
  if (rank_.options().native_collectives && stream_.transport->has_collectives() && countable) {
    std::vector<std::int64_t> counts(send_counts.begin(), send_counts.end());
    const bool in_chunks = kind == CollectiveKind::reduce_scatter ||
                           kind == CollectiveKind::all_gather || kind == CollectiveKind::gather ||
                           kind == CollectiveKind::scatter;
    for (int member = 0; in_chunks && member < size(); ++member) {
      counts.push_back(offset(member + 1) - offset(member));
    }
    operation->set_native(kind, std::move(counts), {receive_counts.begin(), receive_counts.end()});
  }
  return post(operation, options);
}

MessagePlan MessageCommunicator::plan_of(CollectiveKind kind, int root) const {
  return plan_messages(
      {.kind = kind, .size = size(), .member = rank(), .root = root, .offsets = offsets_});
}

void MessageCommunicator::divide_average(MessageOperation& operation, ReduceOp op) const {
  if (op == ReduceOp::avg) operation.set_divisor(size());
}

MessagePlan MessageCommunicator::all_reduce_plan(std::int64_t count, DType dtype) {
  if (size() > 1) {
    if (!tree_) tree_ = std::make_unique<DoubleTree>(layout_);
    const std::int64_t width = size_of(dtype);
    const Algorithm algorithm =
        rank_.choose(layout_, *tree_, count * width, chunk_size(count, size(), 0) * width);
    if (algorithm == Algorithm::tree) return plan_tree_messages(*tree_, size(), rank(), count);
  }
  offsets_ = chunk_offsets(count, {}, true);
  return plan_of(CollectiveKind::all_reduce, -1);
}

Work MessageCommunicator::all_reduce(const Tensor& buffer, ReduceOp op, const CallOptions& options,
                                     CallSite site) {
  check_defined("all_reduce", "`buffer`", buffer, site);
  check_reduce_op("all_reduce", op, site);
  const Operation operation =
      make(reducing(record_of(CollectiveKind::all_reduce, buffer, buffer.numel(), site), op),
           options, all_reduce_plan(buffer.numel(), buffer.dtype()), buffer, buffer);
  operation->set_windows({buffer.data(), 0}, {buffer.data(), 0});
  divide_average(*operation, op);
  return post_collective(operation, CollectiveKind::all_reduce, options);
}

Work MessageCommunicator::reduce_scatter(const Tensor& output, const Tensor& input, ReduceOp op,
                                         const CallOptions& options, CallSite site) {
  check_chunks("reduce_scatter", options, input, output, site);
  check_reduce_op("reduce_scatter", op, site);
  offsets_ = chunk_offsets(input.numel(), options, false);
  const Operation operation =
      make(reducing(record_of(CollectiveKind::reduce_scatter, input, input.numel(), site), op),
           options, plan_of(CollectiveKind::reduce_scatter, -1), output, input);
  operation->work_on_copy({offset(rank()), output.numel()});
  divide_average(*operation, op);
  return post_collective(operation, CollectiveKind::reduce_scatter, options);
}

Work MessageCommunicator::all_gather(const Tensor& output, const Tensor& input,
                                     const CallOptions& options, CallSite site) {
  check_chunks("all_gather", options, output, input, site);
  offsets_ = chunk_offsets(output.numel(), options, false);
  const Operation operation =
      make(record_of(CollectiveKind::all_gather, input, output.numel(), site), options,
           plan_of(CollectiveKind::all_gather, -1), output, input);
  operation->set_windows({output.data(), 0}, {output.data(), 0});
  operation->copy_first({0, input.numel()}, offset(rank()));
  return post_collective(operation, CollectiveKind::all_gather, options);
}

Work MessageCommunicator::all_to_all(const Tensor& output, const Tensor& input,
                                     std::span<const std::int64_t> send_counts,
                                     std::span<const std::int64_t> recv_counts,
                                     const CallOptions& options, CallSite site) {
  check_splits(output, input, send_counts, recv_counts, site);
  std::vector<std::int64_t> equal;
  if (send_counts.empty()) {
    equal.assign(static_cast<std::size_t>(size()), input.numel() / size());
    send_counts = recv_counts = equal;
  }
  const auto self = static_cast<std::size_t>(rank());
  const auto before = [&](std::span<const std::int64_t> counts) {
    return std::accumulate(counts.begin(), counts.begin() + rank(), std::int64_t{0});
  };
  const Operation operation =
      make(record_of(CollectiveKind::all_to_all, input, 0, site), options,
           plan_pairwise_messages(rank(), send_counts, recv_counts), output, input);
  operation->set_windows({input.data(), 0}, {output.data(), 0});
  if (overlap_in_memory(output, input)) operation->send_from_copy();
  operation->copy_first({before(send_counts), send_counts[self]}, before(recv_counts));
  return post_collective(operation, CollectiveKind::all_to_all, options, send_counts, recv_counts);
}

Work MessageCommunicator::broadcast(const Tensor& buffer, int root, const CallOptions& options,
                                    CallSite site) {
  check_peer("broadcast", root, site);
  check_defined("broadcast", "`buffer`", buffer, site);
  offsets_ = chunk_offsets(buffer.numel(), {}, true);
  const Operation operation =
      make(rooted(record_of(CollectiveKind::broadcast, buffer, buffer.numel(), site), root),
           options, plan_of(CollectiveKind::broadcast, root), buffer, buffer);
  operation->set_windows({buffer.data(), 0}, {buffer.data(), 0});
  return post_collective(operation, CollectiveKind::broadcast, options);
}

Work MessageCommunicator::reduce(const Tensor& buffer, ReduceOp op, int root,
                                 const CallOptions& options, CallSite site) {
  check_peer("reduce", root, site);
  check_defined("reduce", "`buffer`", buffer, site);
  check_reduce_op("reduce", op, site);
  offsets_ = chunk_offsets(buffer.numel(), {}, true);
  const CallRecord record =
      reducing(record_of(CollectiveKind::reduce, buffer, buffer.numel(), site), op);
  const Operation operation =
      make(rooted(record, root), options, plan_of(CollectiveKind::reduce, root), buffer, buffer);
  // Other members' buffers keep their values.
  operation->work_on_copy({0, rank() == root ? buffer.numel() : 0});
  divide_average(*operation, op);
  return post_collective(operation, CollectiveKind::reduce, options);
}

Work MessageCommunicator::gather(const Tensor& output, const Tensor& input, int root,
                                 const CallOptions& options, CallSite site) {
  check_peer("gather", root, site);
  const std::int64_t full = full_count("gather", options, root, output, input, site);
  offsets_ = chunk_offsets(full, options, false);
  const Operation operation =
      make(rooted(record_of(CollectiveKind::gather, input, full, site), root), options,
           plan_of(CollectiveKind::gather, root), output, input);
  if (rank() == root) {
    operation->set_windows({}, {output.data(), 0});
    operation->copy_first({0, input.numel()}, offset(root));
  } else {
    operation->set_windows({input.data(), offset(rank())}, {});
  }
  return post_collective(operation, CollectiveKind::gather, options);
}

Work MessageCommunicator::scatter(const Tensor& output, const Tensor& input, int root,
                                  const CallOptions& options, CallSite site) {
  check_peer("scatter", root, site);
  const std::int64_t full = full_count("scatter", options, root, input, output, site);
  offsets_ = chunk_offsets(full, options, false);
  const Operation operation =
      make(rooted(record_of(CollectiveKind::scatter, output, full, site), root), options,
           plan_of(CollectiveKind::scatter, root), output, input);
  if (rank() == root) {
    operation->set_windows({input.data(), 0}, {output.data(), offset(root)});
    operation->copy_first({offset(root), output.numel()}, offset(root));
  } else {
    operation->set_windows({}, {output.data(), offset(rank())});
  }
  return post_collective(operation, CollectiveKind::scatter, options);
}

Work MessageCommunicator::barrier(const CallOptions& options, CallSite site) {
  const Operation operation = make(
      {.name = name_of(CollectiveKind::barrier), .count = 0, .site = site}, options, {}, {}, {});
  operation->set_barrier();
  return post(operation, options);
}

// --- Point-to-point ----------------------------------------------------------------------------

Work MessageCommunicator::send(const Tensor& buffer, int peer, const CallOptions& options,
                               CallSite site) {
  return transfer({.name = "send",
                   .dtype = buffer.dtype(),
                   .root = peer,
                   .count = buffer.numel(),
                   .site = site},
                  {{{P2pOp::Kind::send, buffer, peer}}}, options);
}

Work MessageCommunicator::recv(const Tensor& buffer, int peer, const CallOptions& options,
                               CallSite site) {
  return transfer({.name = "recv",
                   .dtype = buffer.dtype(),
                   .root = peer,
                   .count = buffer.numel(),
                   .site = site},
                  {{{P2pOp::Kind::recv, buffer, peer}}}, options);
}

Work MessageCommunicator::batch(std::span<const P2pOp> operations, const CallOptions& options,
                                CallSite site) {
  return transfer(
      {.name = "batch", .count = static_cast<std::int64_t>(operations.size()), .site = site},
      operations, options);
}

Work MessageCommunicator::transfer(const CallRecord& record, std::span<const P2pOp> halves,
                                   const CallOptions& options) {
  MessageRound round;
  std::vector<Tensor> parts;
  std::vector<CallWatch::Half> all;
  for (const P2pOp& half : halves) {
    const bool sends = half.kind == P2pOp::Kind::send;
    check_peer(sends ? "send" : "recv", half.peer, record.site);
    check_defined(sends ? "send" : "recv", "`buffer`", half.buffer, record.site);
    if (options.padding != 0) check_padding(record.name, options, 0, record.site);
    round.messages.push_back({.kind = sends ? MessageStep::Kind::send : MessageStep::Kind::receive,
                              .peer = half.peer,
                              .slice = {0, half.buffer.num_bytes()},
                              .buffer = static_cast<int>(parts.size())});
    parts.push_back(half.buffer);
    all.push_back({sends, half.peer, half.buffer.dtype(), half.buffer.numel()});
  }
  MessagePlan plan;
  plan.rounds.push_back(std::move(round));
  const Operation operation = make(record, options, std::move(plan), {}, {});
  operation->set_parts(std::move(parts), std::move(all));
  if (!rank_.options().buffered_sends) operation->set_rendezvous();
  return post(operation, options);
}

// --- Waiting -----------------------------------------------------------------------------------

void MessageCommunicator::wait(void* token) {
  const auto it = std::find_if(unwaited_.begin(), unwaited_.end(),
                               [&](const Operation& each) { return each.get() == token; });
  const Operation operation = *it;
  rank_.wait(stream_, *operation);
  unwaited_.erase(std::find(unwaited_.begin(), unwaited_.end(), operation));
  add_call(traffic_, operation->record(), !operation->halves().empty(), operation->moved(),
           operation->links());
}

void MessageCommunicator::abandon(void* token) noexcept {
  if (std::uncaught_exceptions() > 0) return;  // That is reported instead.
  const auto& operation = *static_cast<MessageOperation*>(token);
  Diagnosis diagnosis = diagnosis_of(operation.record().describe(), operation.record().site);
  diagnosis.code = "REQ_LEAK";
  diagnosis.summary = "rank " + std::to_string(rank_.rank()) + " dropped the handle of " +
                      operation.record().describe() + " without waiting for it";
  diagnosis.sequence = operation.sequence();
  diagnosis.hint = "keep the Work that the call returns and wait() for it";
  rank_.fail(std::move(diagnosis));
}

Diagnosis MessageCommunicator::diagnosis_of(const std::string& action, CallSite site) const {
  Diagnosis diagnosis;
  diagnosis.group = stream_.name;
  diagnosis.members = layout_.members;
  std::sort(diagnosis.members.begin(), diagnosis.members.end());
  diagnosis.sides = {{.ranks = {rank_.rank()}, .action = action, .site = site}};
  return diagnosis;
}

void MessageCommunicator::refuse(const char* call, const std::string& what, const std::string& hint,
                                 CallSite site) const {
  Diagnosis diagnosis = diagnosis_of(call, site);
  diagnosis.code = "ARG_RANGE";
  diagnosis.summary = std::string(call) + " on rank " + std::to_string(rank_.rank()) + ": " + what;
  diagnosis.hint = hint;
  throw CommunicationError(std::move(diagnosis));
}

std::unique_ptr<Communicator> MessageCommunicator::split(int color, int key,
                                                         const std::string& name, CallSite site) {
  check_color(color, site);
  // Others may need this process's messages to get here: they go on until all have.
  barrier({.label = rank_.keep_name(name), .traffic = TrafficClass::scalar}, site).wait();
  std::unique_ptr<Transport> part = stream_.transport->split(color, key);
  if (part == nullptr) return nullptr;
  return std::make_unique<MessageCommunicator>(rank_, rank_.open(std::move(part), name));
}

}  // namespace shardsim
