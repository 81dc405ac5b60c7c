#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

// Every number of NCCL's cost model and of how its operations run, as tables with their sources.
// The code of this folder has none of its own beyond counting steps, so that a result can list what
// it rests on. Latencies in microseconds, bandwidths in GB/s (10^9 bytes) and one direction, as
// NCCL has them.
namespace shardsim {

enum class NcclAlgorithm : std::uint8_t { tree, ring, nvls, nvls_tree, pat };
enum class NcclProtocol : std::uint8_t { ll, ll128, simple };
inline constexpr int kNcclAlgorithms = 5;
inline constexpr int kNcclProtocols = 3;

inline constexpr double kBytesPerUs =
    1000.0;  ///< Bytes per us at 1 GB/s: bytes / (GB/s x this) is microseconds.

enum class GpuGeneration : std::uint8_t { ampere, hopper, blackwell };
enum class CpuVendor : std::uint8_t { intel, amd };
/// Releases whose constants differ: 2.28.9 and 2.30.7 were read.
enum class NcclVersion : std::uint8_t { v2_28, v2_30 };

/// The place of a hop.
enum class NcclHop : std::uint8_t { nvlink, net };

/// One row per table; the order of nccl_tables().
enum class NcclTable : std::uint8_t {
  base_latency,
  hop_latency,
  net_overhead,
  net_overhead_simple,
  ring_plateau,
  plateau_bytes,
  pat_hops,
  pat_per_rank,
  ll_cap_one_node,
  ll_cap_nodes,
  ll_share,
  ring_ll128_share,
  ring_ll128_cap,
  tree_share,
  tree_cap,
  tree_ll_divisor,
  tree_ll128_share,
  tree_ll128_cap,
  tree_chain_share,
  tree_correction,
  pat_share,
  nvls_efficiency,
  nvls_tree_cap,
  nvls_fewest_gpus,
  nvls_most_heads,
  fp8_ring_factor,
  fp8_ring_ranks,
  nvlink,
  nvlink_nominal,
  pcie,
  pcie_generation,
  speeds_inside,
  speeds_between,
  duplicated_from,
  not_duplicated,
  most_channels,
  redoubled,
  threads,
  thread_bytes,
  launch,
  point_to_point_hop,
  inside,
  ramp_between,
};
inline constexpr int kNcclTables = static_cast<int>(NcclTable::ramp_between) + 1;

/// How data move inside an NVLink domain: the middle index of NcclTable::inside.
enum class NcclWay : std::uint8_t { ring, nvls, exchange };
/// Its last index.
enum class NcclInside : std::uint8_t { launch, step, efficiency, own, ramp, half_ramp };

struct NcclConstants {
  NcclTable table;
  const char* name;
  const char* unit;   ///< "" for a pure number.
  const char* index;  ///< The meaning of rows and columns; "" for a single number.
  const char* source;
  std::array<int, 3> size;  ///< values.size() is their product; the last runs fastest.
  std::span<const double> values;
};

/// All tables, in the order of NcclTable.
[[nodiscard]] std::span<const NcclConstants> nccl_tables();

[[nodiscard]] const NcclConstants& nccl_table(NcclTable table);

/// One value. REQUIRES: the indices are within the table's size (std::out_of_range otherwise).
[[nodiscard]] double nccl_constant(NcclTable table, int i = 0, int j = 0, int k = 0);

/// The enumerator's place, as an index of a table.
template <typename Enum>
[[nodiscard]] constexpr int at(Enum value) {
  return static_cast<int>(value);
}

/// "name = values unit (index)", as a result lists it.
[[nodiscard]] std::string words_of(const NcclConstants& constants);

/// "Ring", "NVLSTree", ... and "LL128", as NCCL writes them.
[[nodiscard]] const char* name_of(NcclAlgorithm algorithm);
[[nodiscard]] const char* name_of(NcclProtocol protocol);
[[nodiscard]] const char* name_of(GpuGeneration generation);
[[nodiscard]] const char* name_of(NcclVersion version);

}  // namespace shardsim
