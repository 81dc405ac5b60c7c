#include "backends/nccl/nccl_operation.hpp"

#include "backends/reduce.hpp"

namespace shardsim {

namespace {

// Whatever only moves moves as bytes if NCCL has no such type: fp8 came with 2.24.
NcclDataType type_of(DType dtype) {
  switch (dtype) {
    case DType::fp64:
      return NcclDataType::float64;
    case DType::fp32:
      return NcclDataType::float32;
    case DType::bf16:
      return NcclDataType::bfloat16;
    case DType::fp16:
      return NcclDataType::float16;
    case DType::fp8_e4m3:
      return NcclDataType::uint8;
    case DType::int8:
      return NcclDataType::int8;
    case DType::int32:
      return NcclDataType::int32;
    case DType::int64:
      return NcclDataType::int64;
  }
  return NcclDataType::uint8;
}

// An average is a sum until it is back.
NcclReduceOp op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return NcclReduceOp::sum;
    case ReduceOp::min:
      return NcclReduceOp::min;
    case ReduceOp::max:
      return NcclReduceOp::max;
    case ReduceOp::product:
      return NcclReduceOp::product;
  }
  return NcclReduceOp::sum;
}

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
  const NcclDataType type = type_of(call.dtype);
  const NcclReduceOp op = op_of(record_.reduce);
  switch (call.kind) {
    case NcclCall::Kind::all_reduce:
      return nccl.check(f.all_reduce(from, to, count, type, op, comm, stream), "ncclAllReduce",
                        group);
    case NcclCall::Kind::reduce_scatter:
      return nccl.check(f.reduce_scatter(from, to, count, type, op, comm, stream),
                        "ncclReduceScatter", group);
    case NcclCall::Kind::all_gather:
      return nccl.check(f.all_gather(from, to, count, type, comm, stream), "ncclAllGather", group);
    case NcclCall::Kind::broadcast:
      return nccl.check(f.broadcast(from, to, count, type, call.peer, comm, stream),
                        "ncclBroadcast", group);
    case NcclCall::Kind::reduce:
      return nccl.check(f.reduce(from, to, count, type, op, call.peer, comm, stream), "ncclReduce",
                        group);
    case NcclCall::Kind::send:
      return nccl.check(f.send(from, count, type, call.peer, comm, stream), "ncclSend", group);
    case NcclCall::Kind::receive:
      return nccl.check(f.receive(to, count, type, call.peer, comm, stream), "ncclRecv", group);
  }
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
