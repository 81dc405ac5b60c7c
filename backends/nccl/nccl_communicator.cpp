#include <algorithm>
#include <utility>

#include "sim/hardware/collective.hpp"

#include "backends/argument_check.hpp"
#include "backends/nccl/nccl_backend.hpp"

namespace shardsim {

NcclCommunicator::NcclCommunicator(NcclBackend& backend, NcclStream& stream)
    : ProcessCommunicator(backend, stream), backend_(backend), stream_(stream) {}

NcclCommunicator::~NcclCommunicator() { backend_.close(stream_, std::move(traffic_)); }

// --- Posting -----------------------------------------------------------------------------------

Work NcclCommunicator::collective(const CallRecord& record, const CallOptions& options,
                                  NcclProgram program, const MessagePlan& plan,
                                  const Tensor& output, const Tensor& input) {
  auto operation =
      std::make_shared<NcclOperation>(record, stream_.next_sequence++, std::move(program));
  operation->set_options(options, size());
  operation->count(rank(), plan, size_of(record.dtype));
  operation->keep(output);
  operation->keep(input);
  return launch(operation);
}

Work NcclCommunicator::launch(const Operation& operation) {
  backend_.post(stream_, operation);
  return hand_out(operation);
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
  const MessagePlan plan = plan_of(call);  // Sets the offsets that the program needs.
  return collective(call.record, *call.options, program_of(call), plan, *call.output, *call.input);
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

Work NcclCommunicator::transfer(const Call& call) {
  auto operation = std::make_shared<NcclOperation>(call.record, stream_.next_sequence++,
                                                   point_to_point_program(call.halves));
  operation->count(rank(), plan_transfer(call.halves), 1);
  for (const P2pOp& half : call.halves) operation->keep(half.buffer);
  operation->set_halves(call.halves);
  operation->set_options(*call.options, size());
  return launch(operation);
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
