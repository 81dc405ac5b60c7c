#include "backends/nccl/nccl_communicator.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "sim/hardware/collective.hpp"

namespace shardsim {

namespace {

CallRecord reducing_on_nccl(const CallRecord& record, ReduceOp op) {
  if (record.dtype == DType::fp8_e4m3) {
    throw UsageError("E0505", "fp8 tensors cannot be reduced", "reduce in bf16 or fp32");
  }
  return reducing(record, op);
}

CallRecord of_message(const char* name, const Tensor& buffer, int peer, CallSite site) {
  return {
      .name = name, .dtype = buffer.dtype(), .root = peer, .count = buffer.numel(), .site = site};
}

}  // namespace

NcclCommunicator::NcclCommunicator(NcclBackend& backend, NcclStream& stream)
    : backend_(backend), stream_(stream) {
  traffic_.name = stream.name;
  traffic_.members = stream.members;
}

NcclCommunicator::~NcclCommunicator() { backend_.close(stream_, std::move(traffic_)); }

// --- Posting -----------------------------------------------------------------------------------

Work NcclCommunicator::collective(CallRecord record, const CallOptions& options,
                                  NcclProgram program, const MessagePlan& plan,
                                  const Tensor& output, const Tensor& input) {
  complete(record, options);
  // It stands at the end if nobody says where.
  const ElementRange at_end{record.count - record.padding, record.count};
  const std::span<const ElementRange> padding =
      options.padding_at.empty() ? std::span(&at_end, 1) : options.padding_at;
  auto operation = std::make_shared<NcclOperation>(
      record, stream_.next_sequence++, std::move(program),
      count_traffic(plan, rank(), record, size_of(record.dtype), padding));
  operation->keep(output);
  operation->keep(input);
  if (record.reduces && record.reduce == ReduceOp::avg) operation->set_divisor(size());
  return post(operation, options);
}

Work NcclCommunicator::post(const Operation& operation, const CallOptions& options) {
  if (options.after != nullptr) {
    if (!options.after->pending()) {
      refuse(operation->record().name, "`after` is a Work that was waited for already",
             "leave `after` out: waiting has moved the compute stream there",
             operation->record().site);
    }
    operation->follow(static_cast<NcclOperation*>(options.after->operation())->shared_from_this());
  }
  unwaited_.push_back(operation);
  backend_.post(stream_, operation);
  return {*this, operation.get()};
}

MessagePlan NcclCommunicator::plan_of(CollectiveKind kind, int root) const {
  return plan_messages(
      {.kind = kind, .size = size(), .member = rank(), .root = root, .offsets = offsets_});
}

Work NcclCommunicator::all_reduce(const Tensor& buffer, ReduceOp op, const CallOptions& options,
                                  CallSite site) {
  check_defined("all_reduce", "`buffer`", buffer, site);
  check_reduce_op("all_reduce", op, site);
  offsets_ = chunk_offsets(buffer.numel(), {}, true);
  return collective(
      reducing_on_nccl(record_of(CollectiveKind::all_reduce, buffer, buffer.numel(), site), op),
      options, all_reduce_program(buffer), plan_of(CollectiveKind::all_reduce, -1), buffer, buffer);
}

Work NcclCommunicator::reduce_scatter(const Tensor& output, const Tensor& input, ReduceOp op,
                                      const CallOptions& options, CallSite site) {
  check_chunks("reduce_scatter", options, input, output, site);
  check_reduce_op("reduce_scatter", op, site);
  offsets_ = chunk_offsets(input.numel(), options, false);
  return collective(
      reducing_on_nccl(record_of(CollectiveKind::reduce_scatter, input, input.numel(), site), op),
      options, reduce_scatter_program(self(), output, input),
      plan_of(CollectiveKind::reduce_scatter, -1), output, input);
}

Work NcclCommunicator::all_gather(const Tensor& output, const Tensor& input,
                                  const CallOptions& options, CallSite site) {
  check_chunks("all_gather", options, output, input, site);
  offsets_ = chunk_offsets(output.numel(), options, false);
  return collective(record_of(CollectiveKind::all_gather, input, output.numel(), site), options,
                    all_gather_program(self(), output, input),
                    plan_of(CollectiveKind::all_gather, -1), output, input);
}

Work NcclCommunicator::all_to_all(const Tensor& output, const Tensor& input,
                                  std::span<const std::int64_t> send_counts,
                                  std::span<const std::int64_t> recv_counts,
                                  const CallOptions& options, CallSite site) {
  check_splits(output, input, send_counts, recv_counts, site);
  std::vector<std::int64_t> equal;
  if (send_counts.empty()) {
    equal.assign(static_cast<std::size_t>(size()), input.numel() / size());
    send_counts = recv_counts = equal;
  }
  return collective(record_of(CollectiveKind::all_to_all, input, 0, site), options,
                    all_to_all_program(rank(), output, input, send_counts, recv_counts),
                    plan_pairwise_messages(rank(), send_counts, recv_counts), output, input);
}

Work NcclCommunicator::broadcast(const Tensor& buffer, int root, const CallOptions& options,
                                 CallSite site) {
  check_peer("broadcast", root, site);
  check_defined("broadcast", "`buffer`", buffer, site);
  offsets_ = chunk_offsets(buffer.numel(), {}, true);
  return collective(
      rooted(record_of(CollectiveKind::broadcast, buffer, buffer.numel(), site), root), options,
      broadcast_program(rank(), buffer, root), plan_of(CollectiveKind::broadcast, root), buffer,
      buffer);
}

Work NcclCommunicator::reduce(const Tensor& buffer, ReduceOp op, int root,
                              const CallOptions& options, CallSite site) {
  check_peer("reduce", root, site);
  check_defined("reduce", "`buffer`", buffer, site);
  check_reduce_op("reduce", op, site);
  offsets_ = chunk_offsets(buffer.numel(), {}, true);
  const CallRecord record =
      reducing_on_nccl(record_of(CollectiveKind::reduce, buffer, buffer.numel(), site), op);
  return collective(rooted(record, root), options, reduce_program(rank(), buffer, root),
                    plan_of(CollectiveKind::reduce, root), buffer, buffer);
}

Work NcclCommunicator::gather(const Tensor& output, const Tensor& input, int root,
                              const CallOptions& options, CallSite site) {
  check_peer("gather", root, site);
  const std::int64_t full = full_count("gather", options, root, output, input, site);
  offsets_ = chunk_offsets(full, options, false);
  return collective(rooted(record_of(CollectiveKind::gather, input, full, site), root), options,
                    gather_program(self(), output, input, root),
                    plan_of(CollectiveKind::gather, root), output, input);
}

Work NcclCommunicator::scatter(const Tensor& output, const Tensor& input, int root,
                               const CallOptions& options, CallSite site) {
  check_peer("scatter", root, site);
  const std::int64_t full = full_count("scatter", options, root, input, output, site);
  offsets_ = chunk_offsets(full, options, false);
  return collective(rooted(record_of(CollectiveKind::scatter, output, full, site), root), options,
                    scatter_program(self(), input, output, root),
                    plan_of(CollectiveKind::scatter, root), output, input);
}

Work NcclCommunicator::barrier(const CallOptions& options, CallSite site) {
  const Tensor zero = Tensor::allocate(nullptr, MemoryCategory::comm, {1}, DType::int32, false);
  return collective({.name = name_of(CollectiveKind::barrier), .count = 0, .site = site}, options,
                    barrier_program(zero), {}, zero, {});
}

// --- Point-to-point ----------------------------------------------------------------------------

Work NcclCommunicator::send(const Tensor& buffer, int peer, const CallOptions& options,
                            CallSite site) {
  return transfer(of_message("send", buffer, peer, site), {{{P2pOp::Kind::send, buffer, peer}}},
                  options);
}

Work NcclCommunicator::recv(const Tensor& buffer, int peer, const CallOptions& options,
                            CallSite site) {
  return transfer(of_message("recv", buffer, peer, site), {{{P2pOp::Kind::recv, buffer, peer}}},
                  options);
}

Work NcclCommunicator::batch(std::span<const P2pOp> operations, const CallOptions& options,
                             CallSite site) {
  return transfer(
      {.name = "batch", .count = static_cast<std::int64_t>(operations.size()), .site = site},
      operations, options);
}

Work NcclCommunicator::transfer(CallRecord record, std::span<const P2pOp> halves,
                                const CallOptions& options) {
  std::vector<CallWatch::Half> told;
  for (const P2pOp& half : halves) {
    const bool sends = half.kind == P2pOp::Kind::send;
    check_peer(sends ? "send" : "recv", half.peer, record.site);
    check_defined(sends ? "send" : "recv", "`buffer`", half.buffer, record.site);
    if (options.padding != 0) check_padding(record.name, options, 0, record.site);
    told.push_back({.sends = sends,
                    .peer = half.peer,
                    .dtype = half.buffer.dtype(),
                    .count = half.buffer.numel()});
  }
  complete(record, options);
  auto operation = std::make_shared<NcclOperation>(record, stream_.next_sequence++,
                                                   point_to_point_program(halves),
                                                   count_traffic(halves, rank(), record));
  for (const P2pOp& half : halves) operation->keep(half.buffer);
  operation->set_halves(std::move(told));
  return post(operation, options);
}

// --- Waiting -----------------------------------------------------------------------------------

void NcclCommunicator::wait(void* token) {
  const auto it = std::find_if(unwaited_.begin(), unwaited_.end(),
                               [&](const Operation& each) { return each.get() == token; });
  const Operation operation = *it;
  backend_.wait(stream_, *operation);
  unwaited_.erase(std::find(unwaited_.begin(), unwaited_.end(), operation));
  add_call(traffic_, operation->record(), !operation->halves().empty(), operation->traffic().moved,
           operation->traffic().links);
}

void NcclCommunicator::abandon(void* token) noexcept {
  if (std::uncaught_exceptions() > 0) return;  // That is reported instead.
  const auto& operation = *static_cast<NcclOperation*>(token);
  Diagnosis diagnosis = diagnosis_of(operation.record().describe(), operation.record().site);
  diagnosis.code = "REQ_LEAK";
  diagnosis.summary = "rank " + std::to_string(backend_.rank()) + " dropped the handle of " +
                      operation.record().describe() + " without waiting for it";
  diagnosis.sequence = operation.sequence();
  diagnosis.hint = "keep the Work that the call returns and wait() for it";
  backend_.fail(std::move(diagnosis));
}

Diagnosis NcclCommunicator::diagnosis_of(const std::string& action, CallSite site) const {
  Diagnosis diagnosis;
  diagnosis.group = stream_.name;
  diagnosis.members = stream_.members;
  std::sort(diagnosis.members.begin(), diagnosis.members.end());
  diagnosis.sides = {{.ranks = {backend_.rank()}, .action = action, .site = site}};
  return diagnosis;
}

void NcclCommunicator::refuse(const char* call, const std::string& what, const std::string& hint,
                              CallSite site) const {
  Diagnosis diagnosis = diagnosis_of(call, site);
  diagnosis.code = "ARG_RANGE";
  diagnosis.summary =
      std::string(call) + " on rank " + std::to_string(backend_.rank()) + ": " + what;
  diagnosis.hint = hint;
  throw CommunicationError(std::move(diagnosis));
}

// --- Groups ------------------------------------------------------------------------------------

Tensor NcclCommunicator::exchange_choices(int color, int key, const std::string& name,
                                          CallSite site) {
  const auto make = [](std::int64_t count) {
    return Tensor::allocate(nullptr, MemoryCategory::comm, {count}, DType::int64, false);
  };
  const Tensor all = make(std::int64_t{2} * size());
  const Tensor own = all.view(std::int64_t{2} * rank(), {2});
  own.set(0, color);
  own.set(1, key);
  offsets_ = chunk_offsets(all.numel(), {}, false);
  // Counted as the simulation counts the making of a group: a call that moves nothing of the run's.
  collective({.name = name_of(CollectiveKind::split), .count = 0, .site = site},
             {.label = backend_.keep_name(name), .traffic = TrafficClass::scalar},
             all_gather_program(self(), all, own), {}, all, own)
      .wait();
  return all;
}

std::unique_ptr<Communicator> NcclCommunicator::split(int color, int key, const std::string& name,
                                                      CallSite site) {
  check_color(color, site);
  // Behind all that was posted before: afterwards the group is at rest, as NCCL demands.
  const Tensor choices = exchange_choices(color, key, name, site);
  if (color == kNoColor) {
    backend_.split_away(stream_);
    return nullptr;
  }
  std::vector<std::pair<int, int>> seats;  // Key, and rank here.
  for (int member = 0; member < size(); ++member) {
    const std::int64_t at = std::int64_t{2} * member;
    if (static_cast<int>(choices.get(at)) != color) continue;
    seats.emplace_back(static_cast<int>(choices.get(at + 1)), member);
  }
  std::sort(seats.begin(), seats.end());
  std::vector<int> members;
  int self = 0;
  for (const auto& seat : seats) {
    if (seat.second == rank()) self = static_cast<int>(members.size());
    members.push_back(stream_.members[static_cast<std::size_t>(seat.second)]);
  }
  return std::make_unique<NcclCommunicator>(
      backend_, backend_.split(stream_, color, key, name, std::move(members), self));
}

}  // namespace shardsim
