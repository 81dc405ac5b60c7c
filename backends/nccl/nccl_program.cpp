#include "backends/nccl/nccl_program.hpp"

namespace shardsim {

namespace {

using NcclCallKind = NcclCall::Kind;

StagedCopy whole(const Tensor& tensor, std::int64_t device) {
  const std::int64_t bytes = tensor.num_bytes();
  return {.host = bytes > 0 ? tensor.data() : nullptr, .device = device, .bytes = bytes};
}

void append_copy(std::vector<StagedCopy>& copies, const StagedCopy& copy) {
  if (copy.bytes > 0) copies.push_back(copy);
}

void append_call(std::vector<NcclCall>& calls, const NcclCall& call) {
  if (call.count > 0) calls.push_back(call);
}

// So that a second buffer begins where cudaMalloc's would.
std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

bool equal_chunks(const NcclMember& member) {
  for (std::size_t i = 1; i + 1 < member.offsets.size(); ++i) {
    if (member.offsets[i + 1] - member.offsets[i] != member.offsets[1]) return false;
  }
  return true;
}

std::int64_t chunk(const NcclMember& member, int of) {
  const auto index = static_cast<std::size_t>(of);
  return member.offsets[index + 1] - member.offsets[index];
}

std::int64_t begin(const NcclMember& member, int of) {
  return member.offsets[static_cast<std::size_t>(of)];
}

// `gives`, `gets`: whether this member's data goes into it, and whether the result comes here.
NcclProgram in_place(const Tensor& buffer, NcclCallKind kind, int root, bool gives, bool gets) {
  NcclProgram program;
  if (gives) append_copy(program.copied_in, whole(buffer, 0));
  if (gets) append_copy(program.copied_out, whole(buffer, 0));
  program.device_bytes = buffer.num_bytes();
  append_call(program.calls,
              {.kind = kind, .count = buffer.numel(), .peer = root, .dtype = buffer.dtype()});
  return program;
}

// One call per member for its chunk, in place.
void add_rooted(NcclProgram& program, const NcclMember& member, NcclCallKind kind, DType dtype) {
  for (int root = 0; root < member.size; ++root) {
    const std::int64_t place = begin(member, root) * size_of(dtype);
    append_call(program.calls, {.kind = kind,
                                .from = place,
                                .to = place,
                                .count = chunk(member, root),
                                .peer = root,
                                .dtype = dtype});
  }
}

// Between the root, which has the full buffer, and each other member, which has its chunk.
NcclProgram star_program(const NcclMember& member, const Tensor& full, const Tensor& own, int root,
                         bool gathers) {
  const bool at_root = member.rank == root;
  const DType dtype = own.dtype();
  const std::int64_t own_at = at_root ? begin(member, root) * size_of(dtype) : 0;
  NcclProgram program;
  program.device_bytes = at_root ? full.num_bytes() : own.num_bytes();
  append_copy(gathers ? program.copied_in : program.copied_out, whole(own, own_at));
  if (!at_root) {
    append_call(program.calls, {.kind = gathers ? NcclCallKind::send : NcclCallKind::receive,
                                .count = own.numel(),
                                .peer = root,
                                .dtype = dtype});
    return program;
  }
  append_copy(gathers ? program.copied_out : program.copied_in, whole(full, 0));
  for (int peer = 0; peer < member.size; ++peer) {
    if (peer == root) continue;
    NcclCall call{.kind = gathers ? NcclCallKind::receive : NcclCallKind::send,
                  .count = chunk(member, peer),
                  .peer = peer,
                  .dtype = dtype};
    (gathers ? call.to : call.from) = begin(member, peer) * size_of(dtype);
    append_call(program.calls, call);
  }
  return program;
}

}  // namespace

NcclProgram all_reduce_program(const Tensor& buffer) {
  return in_place(buffer, NcclCallKind::all_reduce, -1, true, true);
}

NcclProgram reduce_scatter_program(const NcclMember& member, const Tensor& output,
                                   const Tensor& input) {
  NcclProgram program;
  program.device_bytes = input.num_bytes();
  append_copy(program.copied_in, whole(input, 0));
  const std::int64_t own = begin(member, member.rank) * size_of(input.dtype());
  if (equal_chunks(member)) {
    append_call(program.calls, {.kind = NcclCallKind::reduce_scatter,
                                .to = own,
                                .count = output.numel(),
                                .dtype = input.dtype()});
  } else {
    add_rooted(program, member, NcclCallKind::reduce, input.dtype());
  }
  append_copy(program.copied_out, whole(output, own));
  return program;
}

NcclProgram all_gather_program(const NcclMember& member, const Tensor& output,
                               const Tensor& input) {
  NcclProgram program;
  program.device_bytes = output.num_bytes();
  const std::int64_t own = begin(member, member.rank) * size_of(input.dtype());
  append_copy(program.copied_in, whole(input, own));
  if (equal_chunks(member)) {
    append_call(program.calls, {.kind = NcclCallKind::all_gather,
                                .from = own,
                                .count = input.numel(),
                                .dtype = input.dtype()});
  } else {
    add_rooted(program, member, NcclCallKind::broadcast, input.dtype());
  }
  append_copy(program.copied_out, whole(output, 0));
  return program;
}

NcclProgram all_to_all_program(int rank, const Tensor& output, const Tensor& input,
                               std::span<const std::int64_t> send,
                               std::span<const std::int64_t> receive) {
  NcclProgram program;
  const std::int64_t width = size_of(input.dtype());
  const std::int64_t output_at = aligned(input.num_bytes());
  program.device_bytes = output_at + output.num_bytes();
  std::int64_t from = 0;
  std::int64_t to = output_at;
  for (int peer = 0; peer < static_cast<int>(send.size()); ++peer) {
    const std::int64_t sent = send[static_cast<std::size_t>(peer)];
    const std::int64_t received = receive[static_cast<std::size_t>(peer)];
    if (peer == rank) {
      // A member's part for itself goes straight to its place in the output.
      if (sent > 0) append_copy(program.copied_in, {input.data() + from, to, sent * width});
    } else {
      if (sent > 0) append_copy(program.copied_in, {input.data() + from, from, sent * width});
      append_call(program.calls, {.kind = NcclCallKind::send,
                                  .from = from,
                                  .count = sent,
                                  .peer = peer,
                                  .dtype = input.dtype()});
      append_call(program.calls, {.kind = NcclCallKind::receive,
                                  .to = to,
                                  .count = received,
                                  .peer = peer,
                                  .dtype = input.dtype()});
    }
    from += sent * width;
    to += received * width;
  }
  append_copy(program.copied_out, whole(output, output_at));
  return program;
}

NcclProgram broadcast_program(int rank, const Tensor& buffer, int root) {
  return in_place(buffer, NcclCallKind::broadcast, root, rank == root, rank != root);
}

NcclProgram reduce_program(int rank, const Tensor& buffer, int root) {
  return in_place(buffer, NcclCallKind::reduce, root, true, rank == root);
}

NcclProgram gather_program(const NcclMember& member, const Tensor& full, const Tensor& own,
                           int root) {
  return star_program(member, full, own, root, /*gathers=*/true);
}

NcclProgram scatter_program(const NcclMember& member, const Tensor& full, const Tensor& own,
                            int root) {
  return star_program(member, full, own, root, /*gathers=*/false);
}

NcclProgram barrier_program(const Tensor& zero) {
  return in_place(zero, NcclCallKind::all_reduce, -1, true, false);
}

NcclProgram point_to_point_program(std::span<const P2pOp> halves) {
  NcclProgram program;
  for (const P2pOp& half : halves) {
    const bool sends = half.kind == P2pOp::Kind::send;
    const std::int64_t place = program.device_bytes;
    program.device_bytes = aligned(place + half.buffer.num_bytes());
    append_copy(sends ? program.copied_in : program.copied_out, whole(half.buffer, place));
    // Empty ones as well: both sides wait for each other.
    program.calls.push_back({.kind = sends ? NcclCallKind::send : NcclCallKind::receive,
                             .from = place,
                             .to = place,
                             .count = half.buffer.numel(),
                             .peer = half.peer,
                             .dtype = half.buffer.dtype()});
  }
  return program;
}

}  // namespace shardsim
