#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/hardware/collective.hpp"

// The operations of `shardsim collective`: the elements that each moves for a size, and how its
// bandwidth is counted. Rules and factors are those of nccl-tests (github.com/NVIDIA/nccl-tests,
// doc/PERFORMANCE.md and the GetCollByteCount of each test), so that tables compare.
namespace shardsim {

enum class TestedOperation : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  all_to_all,
  sendrecv,  ///< To the next rank and from the one before, at once.
  gather,
  scatter,
};

/// Null: sendrecv, which is none.
[[nodiscard]] const CollectiveRow* collective_of(TestedOperation operation);
[[nodiscard]] std::string_view name_of(TestedOperation operation);
/// The program of nccl-tests, "all_reduce_perf".
[[nodiscard]] std::string test_program_of(TestedOperation operation);
[[nodiscard]] std::vector<std::string> tested_operation_names();
/// Throws UsageError (E1084) with the nearest name.
[[nodiscard]] TestedOperation tested_operation_of(const std::string& name);

[[nodiscard]] bool reduces(TestedOperation operation);
[[nodiscard]] bool has_root(TestedOperation operation);
/// The places that Communicator offers: some operations work in place only, some never do.
[[nodiscard]] bool works_in_place(TestedOperation operation);
[[nodiscard]] bool works_out_of_place(TestedOperation operation);

/// Elements on one rank. At gather and scatter the larger buffer is the root's.
struct ElementCounts {
  std::int64_t send = 0;
  std::int64_t receive = 0;
  std::int64_t argument = 0;  ///< The argument of NCCL's function: the column "count".
};

/// For a buffer of `elements` in all; where every rank has a chunk, chunks are whole multiples of
/// 16 bytes, so small sizes may come to nothing.
[[nodiscard]] ElementCounts element_counts(TestedOperation operation, std::int64_t elements,
                                           std::int64_t element_bytes, int ranks);

/// busbw = algbw x this factor: the load of a link, whatever the number of ranks.
[[nodiscard]] double bus_factor(TestedOperation operation, int ranks);

}  // namespace shardsim
