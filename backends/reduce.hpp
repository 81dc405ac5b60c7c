#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "backends/communicator.hpp"

// The arithmetic of reductions and the copies of chunks, apart from any backend, so that all
// backends and the oracle of the collectives agree to the bit.
namespace shardsim {

/// rank: ((x0 + x1) + x2) + ..., accumulated in double (fp64), float (16- and 32-bit floats) or the
/// integer type, rounded once at the end. wire: as messages do it, rounded to the dtype after every
/// hop; by a ring, chunk c starts at member c + 1. (By a tree it is not a chunk's matter.)
enum class ReductionOrder : std::uint8_t { rank, wire };

/// Reduces elements [0, count) of all `inputs` (one per member, in rank order) into `output`, which
/// may be one of the inputs. `chunk` says which member's chunk this is: it decides the ring's
/// order. avg: sum, then one division by the number of members (integers truncate). fp8 is refused.
void reduce_chunk(std::span<const std::byte* const> inputs, std::byte* output, std::int64_t count,
                  DType dtype, ReduceOp op, ReductionOrder order, int chunk);

/// Divides elements [0, count) by `divisor`, as avg does after its sum. REQUIRES: divisor > 0.
void divide_chunk(std::byte* data, std::int64_t count, DType dtype, int divisor);

/// Its content once more, in no ledger; a marked tensor tells nobody that it was read.
[[nodiscard]] Tensor unwatched_copy(const Tensor& tensor);

/// Copies within one memory; both ranges may be the same, overlap, or be empty and null.
inline void copy_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) {
  if (to != from && bytes > 0) std::memmove(to, from, static_cast<std::size_t>(bytes));
}

}  // namespace shardsim
