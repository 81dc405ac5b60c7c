#include "backends/nccl/nccl_communicator.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "sim/hardware/collective.hpp"

#include "backends/argument_check.hpp"

namespace shardsim {

NcclCommunicator::NcclCommunicator(NcclBackend& backend, NcclStream& stream)
    : backend_(backend), stream_(stream) {
  traffic_.name = stream.name;
  traffic_.members = stream.members;
}

NcclCommunicator::~NcclCommunicator() { backend_.close(stream_, std::move(traffic_)); }

// --- Posting -----------------------------------------------------------------------------------

Work NcclCommunicator::collective(const CallRecord& record, const CallOptions& options,
                                  NcclProgram program, const MessagePlan& plan,
                                  const Tensor& output, const Tensor& input) {
  // It stands at the end unless the call says where.
  const ElementRange at_end{record.count - record.padding, record.count};
  const std::span<const ElementRange> padding =
      options.padding_at.empty() ? std::span(&at_end, 1) : options.padding_at;
  auto operation = std::make_shared<NcclOperation>(
      record, stream_.next_sequence++, std::move(program),
      count_traffic(plan, rank(), record, size_of(record.dtype), padding));
  operation->keep(output);
  operation->keep(input);
  if (record.reduces && record.reduce == ReduceOp::avg) operation->set_divisor(size());
  return launch(operation, options);
}

Work NcclCommunicator::launch(const Operation& operation, const CallOptions& options) {
  if (options.after != nullptr) {
    operation->follow(static_cast<NcclOperation*>(options.after->operation())->shared_from_this());
  }
  unwaited_.push_back(operation);
  backend_.post(stream_, operation);
  return {*this, operation.get()};
}

Work NcclCommunicator::post(const Call& call) {
  if (call.kind != CallKind::collective) return transfer(call);
  if (call.record.reduces && call.record.dtype == DType::fp8_e4m3) {
    throw UsageError("E0505", "fp8 tensors cannot be reduced", "reduce in bf16 or fp32");
  }
  const CollectivePath path = row_of(call.collective).path;
  if (path == CollectivePath::none) {
    const Tensor zero = Tensor::allocate(nullptr, MemoryCategory::comm, {1}, DType::int32, false);
    return collective(call.record, *call.options, barrier_program(zero), {}, zero, {});
  }
  if (path != CollectivePath::pairs) offsets_ = chunk_offsets(call, size());
  return collective(call.record, *call.options, program_of(call), plan_of(call), *call.output,
                    *call.input);
}

NcclProgram NcclCommunicator::program_of(const Call& call) const {
  const Tensor& output = *call.output;
  const Tensor& input = *call.input;
  const int root = call.record.root;
  switch (call.collective) {
    case CollectiveKind::all_reduce:
      return all_reduce_program(output);
    case CollectiveKind::reduce_scatter:
      return reduce_scatter_program(self(), output, input);
    case CollectiveKind::all_gather:
      return all_gather_program(self(), output, input);
    case CollectiveKind::all_to_all:
      return all_to_all_program(rank(), output, input, call.send_counts, call.recv_counts);
    case CollectiveKind::broadcast:
      return broadcast_program(rank(), output, root);
    case CollectiveKind::reduce:
      return reduce_program(rank(), output, root);
    case CollectiveKind::gather:
      return gather_program(self(), output, input, root);
    case CollectiveKind::scatter:
      return scatter_program(self(), input, output, root);
    case CollectiveKind::barrier:
    case CollectiveKind::split:
      break;  // They have programs of their own.
  }
  return {};
}

MessagePlan NcclCommunicator::plan_of(const Call& call) const {
  if (row_of(call.collective).path == CollectivePath::pairs) {
    return plan_pairwise_messages(rank(), call.send_counts, call.recv_counts);
  }
  return plan_messages({.kind = call.collective,
                        .size = size(),
                        .member = rank(),
                        .root = call.record.root,
                        .offsets = offsets_});
}

Work NcclCommunicator::transfer(const Call& call) {
  std::vector<CallWatch::Half> told;
  for (const P2pOp& half : call.halves) {
    told.push_back({.sends = half.kind == P2pOp::Kind::send,
                    .peer = half.peer,
                    .dtype = half.buffer.dtype(),
                    .count = half.buffer.numel()});
  }
  auto operation = std::make_shared<NcclOperation>(call.record, stream_.next_sequence++,
                                                   point_to_point_program(call.halves),
                                                   count_traffic(call.halves, rank(), call.record));
  for (const P2pOp& half : call.halves) operation->keep(half.buffer);
  operation->set_halves(std::move(told));
  return launch(operation, *call.options);
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
  offsets_.assign(static_cast<std::size_t>(size()) + 1, 0);
  for (std::size_t member = 1; member < offsets_.size(); ++member) {
    offsets_[member] = offsets_[member - 1] + own.numel();
  }
  // Counted as the simulation counts the making of a group: a call that moves nothing of the run's.
  collective({.name = collective::kSplit.name,
              .count = 0,
              .label = backend_.keep_name(name),
              .traffic = TrafficClass::scalar,
              .site = site},
             {}, all_gather_program(self(), all, own), {}, all, own)
      .wait();
  return all;
}

std::unique_ptr<Communicator> NcclCommunicator::split(int color, int key, const std::string& name,
                                                      CallSite site) {
  ArgumentCheck(*this, collective::kSplit.name, site).color(color);
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
