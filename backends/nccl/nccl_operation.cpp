#include "backends/nccl/nccl_operation.hpp"

#include <utility>

#include "backends/reduce.hpp"

namespace shardsim {

namespace {

// By DType. Whatever only moves moves as bytes if NCCL has no such type: fp8 came with 2.24.
constexpr NcclDataType kTypes[] = {
    NcclDataType::float64, NcclDataType::float32, NcclDataType::bfloat16, NcclDataType::float16,
    NcclDataType::uint8,   NcclDataType::int8,    NcclDataType::int32,    NcclDataType::int64};

// By ReduceOp. An average is a sum until it is back.
constexpr NcclReduceOp kReductionsOfNccl[] = {NcclReduceOp::sum, NcclReduceOp::sum,
                                              NcclReduceOp::min, NcclReduceOp::max,
                                              NcclReduceOp::product};

}  // namespace

bool NcclOperation::needs(const NcclOperation& earlier) const {
  for (const StagedCopy& in : program_.copied_in) {
    for (const StagedCopy& out : earlier.program_.copied_out) {
      if (in.host < out.host + out.bytes && out.host < in.host + in.bytes) return true;
    }
  }
  return false;
}

void NcclOperation::call(const NcclLibrary& nccl, const NcclCall& call, NcclComm comm,
                         CudaStream stream, const std::string& group) const {
  const NcclFunctions& f = nccl.functions();
  const std::byte* from = memory_ + call.from;
  std::byte* to = memory_ + call.to;
  const auto count = static_cast<std::size_t>(call.count);
  const NcclDataType type = kTypes[static_cast<std::size_t>(call.dtype)];
  const NcclReduceOp op = kReductionsOfNccl[static_cast<std::size_t>(record_.reduce)];
  const auto made = [&]() -> std::pair<NcclStatus, const char*> {
    switch (call.kind) {
      case NcclCall::Kind::all_reduce:
        return {f.all_reduce(from, to, count, type, op, comm, stream), "ncclAllReduce"};
      case NcclCall::Kind::reduce_scatter:
        return {f.reduce_scatter(from, to, count, type, op, comm, stream), "ncclReduceScatter"};
      case NcclCall::Kind::all_gather:
        return {f.all_gather(from, to, count, type, comm, stream), "ncclAllGather"};
      case NcclCall::Kind::broadcast:
        return {f.broadcast(from, to, count, type, call.peer, comm, stream), "ncclBroadcast"};
      case NcclCall::Kind::reduce:
        return {f.reduce(from, to, count, type, op, call.peer, comm, stream), "ncclReduce"};
      case NcclCall::Kind::send:
        return {f.send(from, count, type, call.peer, comm, stream), "ncclSend"};
      case NcclCall::Kind::receive:
        return {f.receive(to, count, type, call.peer, comm, stream), "ncclRecv"};
    }
    return {};
  }();
  nccl.check(made.first, made.second, group);
}

void NcclOperation::start(CudaDevice& device, const NcclLibrary& nccl, NcclComm comm,
                          CudaStream stream, const std::string& group) {
  memory_ = device.allocate(program_.device_bytes);
  if (!program_.copied_in.empty()) {
    for (const StagedCopy& copy : program_.copied_in) {
      device.copy_in(memory_ + copy.device, copy.host, copy.bytes);
    }
    copied_in_ = device.record(device.copy_stream());
    device.wait(stream, copied_in_);
  }
  if (after_ && !after_->ended()) {
    device.wait(stream, static_cast<const NcclOperation&>(*after_).done_);
  }
  state_ = State::enqueuing;
  if (program_.calls.empty()) return;
  if (program_.calls.size() == 1) return call(nccl, program_.calls.front(), comm, stream, group);
  nccl.check(nccl.functions().group_start(), "ncclGroupStart", group);
  try {
    for (const NcclCall& each : program_.calls) call(nccl, each, comm, stream, group);
  } catch (...) {
    // An open group would hold back the abort that follows.
    nccl.functions().group_end();
    throw;
  }
  nccl.check(nccl.functions().group_end(), "ncclGroupEnd", group);
}

void NcclOperation::enqueued(CudaDevice& device, CudaStream stream) {
  done_ = device.record(stream);
  state_ = State::running;
}

bool NcclOperation::advance(CudaDevice& device) {
  bool moved = false;
  if (state_ == State::running) {
    // A later copy may overwrite the result of an earlier one.
    if ((after_ && !after_->ended()) || !device.done(done_)) return false;
    for (const StagedCopy& copy : program_.copied_out) {
      device.copy_out(copy.host, memory_ + copy.device, copy.bytes);
    }
    copied_out_ = device.record(device.copy_stream());
    state_ = State::returning;
    moved = true;
  }
  if (state_ == State::returning && device.done(copied_out_)) {
    finish(device);
    moved = true;
  }
  return moved;
}

void NcclOperation::finish(CudaDevice& device) {
  if (divisor_ > 1) {
    for (const StagedCopy& copy : program_.copied_out) {
      divide_chunk(copy.host, copy.bytes / size_of(record_.dtype), record_.dtype, divisor_);
    }
  }
  device.release(memory_);
  for (CudaEvent event : {copied_in_, done_, copied_out_}) device.give_back(event);
  memory_ = nullptr;
  buffers_.clear();
  after_.reset();
  state_ = State::ended;
}

}  // namespace shardsim
