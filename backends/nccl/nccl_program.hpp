#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/communicator.hpp"

// One call of a communicator in NCCL's terms: copies to the device, calls of NCCL's functions, and
// copies back. Pure functions of the call: tables in tests.
namespace shardsim {

/// One function of NCCL. Places are bytes from the operation's device memory.
struct NcclCall {
  enum class Kind : std::uint8_t {
    all_reduce,
    reduce_scatter,  ///< `count`: of what is received, as NCCL has it.
    all_gather,      ///< `count`: of what is sent.
    broadcast,
    reduce,
    send,
    receive,
  };
  Kind kind = Kind::all_reduce;
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t count = 0;
  int peer = -1;  ///< Or root.
  DType dtype = DType::fp32;
};

struct StagedCopy {
  std::byte* host = nullptr;
  std::int64_t device = 0;
  std::int64_t bytes = 0;
};

/// More than one call: a group, which is launched as one.
struct NcclProgram {
  std::int64_t device_bytes = 0;
  std::vector<StagedCopy> copied_in;
  std::vector<NcclCall> calls;
  std::vector<StagedCopy> copied_out;
};

/// The member that calls, and offsets of all members' chunks in the full buffer with its end
/// (size + 1 values).
struct NcclMember {
  int rank = 0;
  int size = 1;
  std::span<const std::int64_t> offsets;
};

[[nodiscard]] NcclProgram all_reduce_program(const Tensor& buffer);
/// Chunks of unequal sizes: reductions to each member, grouped.
[[nodiscard]] NcclProgram reduce_scatter_program(const NcclMember& member, const Tensor& output,
                                                 const Tensor& input);
/// Chunks of unequal sizes: broadcasts from each member, grouped.
[[nodiscard]] NcclProgram all_gather_program(const NcclMember& member, const Tensor& output,
                                             const Tensor& input);
/// Messages from and to each peer, grouped; nothing for a peer, no message.
[[nodiscard]] NcclProgram all_to_all_program(int rank, const Tensor& output, const Tensor& input,
                                             std::span<const std::int64_t> send,
                                             std::span<const std::int64_t> receive);
[[nodiscard]] NcclProgram broadcast_program(int rank, const Tensor& buffer, int root);
[[nodiscard]] NcclProgram reduce_program(int rank, const Tensor& buffer, int root);
/// `full` is read at the root only.
[[nodiscard]] NcclProgram gather_program(const NcclMember& member, const Tensor& full,
                                         const Tensor& own, int root);
[[nodiscard]] NcclProgram scatter_program(const NcclMember& member, const Tensor& full,
                                          const Tensor& own, int root);
/// NCCL has no barrier: an all_reduce of one element, which `zero` provides.
[[nodiscard]] NcclProgram barrier_program(const Tensor& zero);
[[nodiscard]] NcclProgram point_to_point_program(std::span<const P2pOp> halves);

}  // namespace shardsim
