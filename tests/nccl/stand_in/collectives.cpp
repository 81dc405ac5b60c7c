#include <algorithm>
#include <cstring>

#include "backends/reduce.hpp"

#include "tests/nccl/stand_in/machine.hpp"

// The arithmetic of the collectives. Additions go around the ring as NCCL's do: chunk c starts at
// member c + 1, and is rounded after every hop.
namespace shardsim::stand_in {

namespace {

using Kind = DeviceCall::Kind;

DType dtype_of(NcclDataType type) {
  switch (type) {
    case NcclDataType::int8:
    case NcclDataType::uint8:
      return DType::int8;
    case NcclDataType::int32:
      return DType::int32;
    case NcclDataType::int64:
      return DType::int64;
    case NcclDataType::float16:
      return DType::fp16;
    case NcclDataType::float32:
      return DType::fp32;
    case NcclDataType::float64:
      return DType::fp64;
    case NcclDataType::bfloat16:
      return DType::bf16;
  }
  return DType::int8;
}

ReduceOp op_of(NcclReduceOp op) {
  switch (op) {
    case NcclReduceOp::sum:
      return ReduceOp::sum;
    case NcclReduceOp::product:
      return ReduceOp::product;
    case NcclReduceOp::max:
      return ReduceOp::max;
    case NcclReduceOp::min:
      return ReduceOp::min;
  }
  return ReduceOp::sum;
}

// `chunk` of all members' buffers, elements [begin, begin + count), reduced.
std::vector<std::byte> reduced(const std::vector<DeviceCall*>& members, std::size_t begin,
                               std::size_t count, std::size_t chunk) {
  const DeviceCall& first = *members.front();
  const std::size_t width = width_of(first.type);
  std::vector<const std::byte*> inputs;
  for (const DeviceCall* each : members) inputs.push_back(each->from + begin * width);
  std::vector<std::byte> result(count * width);
  reduce_chunk(inputs, result.data(), static_cast<std::int64_t>(count), dtype_of(first.type),
               op_of(first.op), ReductionOrder::wire, static_cast<int>(chunk));
  return result;
}

void put(std::byte* to, const std::vector<std::byte>& bytes) {
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
}

void all_reduce(const std::vector<DeviceCall*>& members) {
  const std::size_t count = members.front()->count;
  std::vector<std::byte> whole;
  std::size_t begin = 0;
  for (std::size_t chunk = 0; chunk < members.size(); ++chunk) {
    const std::size_t size = count / members.size() + (chunk < count % members.size() ? 1 : 0);
    const std::vector<std::byte> part = reduced(members, begin, size, chunk);
    whole.insert(whole.end(), part.begin(), part.end());
    begin += size;
  }
  for (const DeviceCall* each : members) put(each->to, whole);
}

void reduce_scatter(const std::vector<DeviceCall*>& members) {
  const std::size_t count = members.front()->count;
  std::vector<std::vector<std::byte>> parts;
  for (std::size_t i = 0; i < members.size(); ++i) {
    parts.push_back(reduced(members, i * count, count, i));
  }
  for (std::size_t i = 0; i < members.size(); ++i) put(members[i]->to, parts[i]);
}

void all_gather(const std::vector<DeviceCall*>& members) {
  const std::size_t bytes = members.front()->count * width_of(members.front()->type);
  std::vector<std::byte> whole;
  for (const DeviceCall* each : members) whole.insert(whole.end(), each->from, each->from + bytes);
  for (const DeviceCall* each : members) put(each->to, whole);
}

}  // namespace

std::size_t width_of(NcclDataType type) {
  return static_cast<std::size_t>(size_of(dtype_of(type)));
}

bool agree(const std::vector<DeviceCall*>& members) {
  const DeviceCall& first = *members.front();
  return std::all_of(members.begin(), members.end(), [&](const DeviceCall* each) {
    if (each->count != first.count || each->type != first.type) return false;
    // A send and its receive differ in the rest.
    return first.kind == Kind::send ||
           (each->kind == first.kind && each->op == first.op && each->peer == first.peer);
  });
}

void carry_out(const std::vector<DeviceCall*>& members) {
  const DeviceCall& first = *members.front();
  const std::size_t bytes = first.count * width_of(first.type);
  switch (first.kind) {
    case Kind::all_reduce:
      return all_reduce(members);
    case Kind::reduce_scatter:
      return reduce_scatter(members);
    case Kind::all_gather:
      return all_gather(members);
    case Kind::broadcast: {
      const std::byte* from = members[static_cast<std::size_t>(first.peer)]->from;
      const std::vector<std::byte> whole(from, from + bytes);
      for (const DeviceCall* each : members) put(each->to, whole);
      return;
    }
    case Kind::reduce: {
      const auto root = static_cast<std::size_t>(first.peer);
      return put(members[root]->to, reduced(members, 0, first.count, root));
    }
    case Kind::send:
    case Kind::receive:
      return put(members.back()->to, {first.from, first.from + bytes});
  }
}

}  // namespace shardsim::stand_in
