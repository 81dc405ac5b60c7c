#include "backends/mpi/mpi_transport.hpp"

#include <array>
#include <string>
#include <utility>

#include "sim/kernel/diagnosis.hpp"

#include "backends/reduce.hpp"

namespace shardsim {

namespace {

using Combine = ShardsimMpiCombine;

constexpr std::array kDTypes = {DType::fp64, DType::fp32,  DType::bf16, DType::fp16,
                                DType::int8, DType::int32, DType::int64};
constexpr std::array kReductions = {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product};
static_assert(kDTypes.size() * kReductions.size() <= kShardsimMpiReductions);

// A function without context, as MPI wants: what it does is part of its type.
template <DType dtype, ReduceOp op>
void combine(const void* in, void* inout, std::int64_t count) {
  auto* const own = static_cast<std::byte*>(inout);
  const std::array<const std::byte*, 2> inputs = {static_cast<const std::byte*>(in), own};
  reduce_chunk(inputs, own, count, dtype, op, ReductionOrder::rank, 0);
}

template <std::size_t index>
constexpr Combine combine_at() {
  return combine<kDTypes[index / kReductions.size()], kReductions[index % kReductions.size()]>;
}

template <std::size_t... index>
void set_reductions(const ShardsimMpiTable& table, std::index_sequence<index...>) {
  (table.set_reduction(static_cast<std::int32_t>(index), combine_at<index>()), ...);
}

std::int32_t index_of(DType dtype, ReduceOp op) {
  std::int32_t index = 0;
  for (const DType each : kDTypes) {
    for (const ReduceOp reduction : kReductions) {
      if (each == dtype && reduction == op) return index;
      ++index;
    }
  }
  throw UsageError("E0505", "fp8 tensors cannot be reduced", "reduce in bf16 or fp32");
}

std::int32_t kind_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::reduce_scatter:
      return ShardsimMpiCollective::reduce_scatter;
    case CollectiveKind::all_gather:
      return ShardsimMpiCollective::all_gather;
    case CollectiveKind::all_to_all:
      return ShardsimMpiCollective::all_to_all;
    case CollectiveKind::broadcast:
      return ShardsimMpiCollective::broadcast;
    case CollectiveKind::reduce:
      return ShardsimMpiCollective::reduce;
    case CollectiveKind::gather:
      return ShardsimMpiCollective::gather;
    case CollectiveKind::scatter:
      return ShardsimMpiCollective::scatter;
    default:
      return ShardsimMpiCollective::all_reduce;
  }
}

}  // namespace

MpiTransport::MpiTransport(const MpiJob& job, std::int32_t group)
    : job_(job),
      group_(group),
      rank_(job.table().rank(group)),
      world_ranks_(static_cast<std::size_t>(job.table().size(group))) {
  job.table().world_ranks(group, world_ranks_.data());
  constexpr std::size_t kCount = kDTypes.size() * kReductions.size();
  if (group == 0) set_reductions(job.table(), std::make_index_sequence<kCount>());
}

MpiTransport::~MpiTransport() { job_.table().free_group(group_); }

void MpiTransport::check(std::int32_t status) const {
  if (status == kMpiOk) return;
  const std::string text = job_.table().error_text();
  if (status == kMpiOtherSize) throw WrongSize(text);
  throw Error(ExitCode::backend_failed, "E1062", text,
              "a peer may have gone; what it printed says why");
}

Transport::Request MpiTransport::send(int peer, const std::byte* data, std::int64_t bytes,
                                      bool rendezvous) {
  Request request = 0;
  check(job_.table().send(group_, peer, data, bytes, rendezvous ? 1 : 0, &request));
  return request;
}

Transport::Request MpiTransport::receive(int peer, std::byte* data, std::int64_t bytes) {
  Request request = 0;
  check(job_.table().receive(group_, peer, data, bytes, &request));
  return request;
}

Transport::Request MpiTransport::barrier() {
  Request request = 0;
  check(job_.table().barrier(group_, &request));
  return request;
}

Transport::Request MpiTransport::collective(const NativeCall& call) {
  const bool in_parts = !call.counts.empty();
  const ShardsimMpiCollective collective = {
      .kind = kind_of(call.kind),
      .root = call.root,
      .element_bytes = static_cast<std::int32_t>(size_of(call.dtype)),
      .reduction = call.reduces ? index_of(call.dtype, call.reduction) : 0,
      .in = call.in,
      .out = call.out,
      .count = call.count,
      .counts = in_parts ? call.counts.data() : nullptr,
      .receive_counts = call.receive_counts.empty() ? nullptr : call.receive_counts.data()};
  Request request = 0;
  check(job_.table().collective(group_, &collective, &request));
  return request;
}

bool MpiTransport::done(Request request) {
  std::int32_t done = 0;
  check(job_.table().test(request, &done));
  return done != 0;
}

std::unique_ptr<Transport> MpiTransport::split(int color, int key) {
  std::int32_t made = 0;
  check(job_.table().split(group_, color, key, &made));
  if (made < 0) return nullptr;
  return std::unique_ptr<Transport>(new MpiTransport(job_, made));
}

}  // namespace shardsim
