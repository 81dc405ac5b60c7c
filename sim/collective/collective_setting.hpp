#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/hardware/cluster.hpp"
#include "sim/hardware/collective.hpp"

#include "backends/communicator.hpp"

#include "sim/real/process_options.hpp"

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

/// Elements on one rank. At gather and scatter the larger buffer is the root's.
struct ElementCounts {
  std::int64_t send = 0;
  std::int64_t receive = 0;
  std::int64_t argument = 0;  ///< The argument of NCCL's function: the column "count".
};

/// busbw = algbw x this factor: the load of a link, whatever the number of ranks.
[[nodiscard]] double bus_factor(TestedOperation operation, int ranks);

/// The words of `shardsim collective`, as given; defaults are those of nccl-tests.
struct CollectiveArguments {
  std::string operation;
  std::string min_bytes = "32M";
  std::string max_bytes = "32M";
  std::string step_bytes;  ///< Empty: 1M, unless there is a factor.
  std::string factor;      ///< Empty: none.
  int iterations = 20;
  int warmup = 5;
  int checks = 1;
  std::string reduction = "sum";
  std::string dtype = "float";
  int root = 0;
  int ranks = 0;  ///< 0: see collective_setting_of.
  int nodes = 0;  ///< 0: as many as the ranks fill.
  std::string system = "dgx-h100";
  std::vector<std::string> overrides;  ///< Overrides of the system's scenario, as --set.
  bool json = false;
  bool quiet = false;
  ProcessOptions process;
};

/// The checked setting of a measurement.
struct CollectiveSetting {
  TestedOperation operation{};
  std::vector<std::int64_t> sizes;  ///< Bytes, ascending.
  std::string sizes_text;           ///< "minBytes 8 maxBytes 64 step: 2(factor)".
  int iterations = 20;
  int warmup = 5;
  int checks = 1;
  ReduceOp reduction = ReduceOp::sum;
  std::string reduction_name;  ///< As nccl-tests prints it; "none" without a reduction.
  DType dtype = DType::fp32;
  std::string dtype_name;  ///< NCCL's.
  int root = 0;            ///< -1 where there is none.
  std::string system;      ///< The simulated system: a preset, or a scenario's.
  Cluster cluster;

  [[nodiscard]] int ranks() const { return cluster.num_ranks(); }
  /// For a buffer of `size` bytes in all; where every rank has a chunk, chunks are whole multiples
  /// of 16 bytes, so small sizes may come to nothing.
  [[nodiscard]] ElementCounts counts(std::int64_t size) const;
};

/// NCCL's name of a type, as --datatype takes it; "float" for one that it does not take (fp8).
[[nodiscard]] std::string nccl_type_name(DType dtype);

/// Throws UsageError (E1080 to E1089). `launched_ranks`: the number that a launcher has started, 0
/// if none. Without --ranks there are as many, else 8 simulated ones or 2 processes.
[[nodiscard]] CollectiveSetting collective_setting_of(const CollectiveArguments& arguments,
                                                      int launched_ranks);

/// The machine of `ranks` ranks: `nodes` nodes (0: as many as it takes) of `system` as above,
/// each with as few GPUs as the ranks need. Throws UsageError (E1087), and ScenarioError.
[[nodiscard]] Cluster cluster_of_ranks(const std::string& system, int ranks, int nodes,
                                       const std::vector<std::string>& overrides = {});

}  // namespace shardsim
