#include "sim/hardware/nccl/constants.hpp"

#include <iterator>
#include <stdexcept>

#include <fmt/format.h>

namespace shardsim {

namespace {

constexpr const char* kTuning = "NCCL 2.28.9 and 2.30.7, src/graph/tuning.cc, tuner constants";
constexpr const char* kModel = "NCCL 2.28.9 and 2.30.7, src/graph/tuning.cc, ncclTopoTuneModel";
constexpr const char* kTime = "NCCL 2.28.9 and 2.30.7, src/graph/tuning.cc, ncclTopoGetAlgoTime";
constexpr const char* kSearch = "NCCL 2.28.9 and 2.30.7, src/graph/search.cc";
constexpr const char* kTopology = "NCCL 2.28.9 and 2.30.7, src/graph/topo.h";

// Columns LL, LL128, Simple; rows Tree, Ring, NVLS, NVLSTree, PAT.
constexpr double kBaseLatency[] = {6.8, 14, 8.4, 6.6, 14, 8.4, 0, 0, 0, 0, 0, 0, 8, 8, 8};
constexpr double kHopLatency[] = {
    0.6, 1.25, 4.0, 0.6, 1.9, 3.4,  0, 0, 25, 0, 0, 25,   0, 0, 4,   // NVLink
    5.0, 8.5,  14,  2.7, 4.0, 14.0, 0, 0, 18, 0, 0, 20.9, 0, 0, 14,  // NET
};
constexpr double kNetOverhead[] = {1, 2};  // Intel, AMD
constexpr double kNetOverheadSimple[] = {3};
constexpr double kRingPlateau[] = {1.4};
constexpr double kPlateauBytes[] = {64};
constexpr double kPatHops[] = {3.5};
constexpr double kPatPerRank[] = {2.8};
constexpr double kLlCapOneNode[] = {87.7, 141, 282};
constexpr double kLlCapNodes[] = {39, 20.4, 22.5, 19};  // Intel, AMD; two nodes, more
constexpr double kLlShare[] = {0.5};
constexpr double kRingLl128Share[] = {0.92};
constexpr double kRingLl128Cap[] = {
    20, 20, 20, 36.7, 36.7, 36.7, 73.4, 34.6, 73.4,  // 2.28
    20, 20, 20, 36.7, 36.7, 36.7, 40,   40,   40,    // 2.30
};
constexpr double kTreeShare[] = {0.92};
constexpr double kTreeCap[] = {24, 23.6, 17.8, 38.7, 41.4, 36, 70, 42.8, 24};
constexpr double kTreeLlDivisor[] = {3.8};
constexpr double kTreeLl128Share[] = {7.0 / 9.0, 120.0 / 128.0};
constexpr double kTreeLl128Cap[] = {20, 20, 20, 36.7, 36.7, 29, 55.6, 31.67, 20};
constexpr double kTreeChainShare[] = {0.85};
constexpr double kTreeCorrection[] = {
    1,  1,  1,  1,  .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1,  1,  1,  1,   //
    1,  1,  1,  1,  1,  .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1,  1,   //
    .9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9,  //
};
constexpr double kPatShare[] = {0.75};
constexpr double kNvlsEfficiency[] = {0.0, 0.85, 0.74};
constexpr double kNvlsTreeCap[] = {0, 0, 57.7, 45.5, 96, 43.8, 0, 0, 57.7, 45.5, 96, 80};
constexpr double kNvlsFewestGpus[] = {3, 2};
constexpr double kNvlsMostHeads[] = {32};
constexpr double kFp8RingFactor[] = {1024};
constexpr double kFp8RingRanks[] = {8};
constexpr double kNvlink[] = {20, 20.6, 40.1};
constexpr double kNvlinkNominal[] = {25, 25, 50};
constexpr double kPcieGeneration[] = {4, 5, 5};
constexpr double kPcie[] = {12, 24, 48, 96};
// Rows are filled up with zeros.
constexpr double kSpeedsInside[] = {
    40, 30, 20, 18, 15, 12, 10, 9,  7,  6,  5,  4,  3,  // 2.28 Ampere
    60, 50, 40, 30, 24, 20, 15, 12, 11, 6,  3,  0,  0,  // 2.28 Hopper
    90, 80, 70, 60, 50, 40, 30, 24, 20, 19, 18, 0,  0,  // 2.28 Blackwell
    40, 30, 20, 18, 15, 12, 10, 9,  7,  6,  5,  4,  3,  // 2.30 Ampere
    60, 50, 40, 30, 24, 20, 15, 12, 11, 6,  3,  0,  0,  // 2.30 Hopper
    90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18, 0,  // 2.30 Blackwell
};
constexpr double kSpeedsBetween[] = {
    48, 30,   28,   24,  20,   18,   15,   12,   10,   9,
    7,  6,    5,    4,   3,    2.4,  1.2,  0.24, 0.12, 0,  // 2.28 Ampere
    48, 45,   42,   40,  30,   24,   22,   20,   17.5, 15,
    12, 6,    3,    2.4, 1.2,  0.24, 0.12, 0,    0,    0,  // 2.28 Hopper
    96, 48,   45.1, 42,  40,   30,   24,   22,   20,   17.5,
    15, 12,   6,    3,   2.4,  1.2,  0.24, 0.12, 0,    0,  // 2.28 Blackwell
    48, 30,   28,   24,  20,   18,   15,   12,   10,   9,
    7,  6,    5,    4,   3,    2.4,  1.2,  0.24, 0.12, 0,  // 2.30 Ampere
    48, 45,   42,   40,  30,   24,   22,   20,   17.5, 15,
    12, 6,    3,    2.4, 1.2,  0.24, 0.12, 0,    0,    0,  // 2.30 Hopper
    96, 86,   80,   48,  45.1, 42,   40,   30,   24,   22,
    20, 17.5, 15,   12,  6,    3,    2.4,  1.2,  0.24, 0.12,  // 2.30 Blackwell
};
constexpr double kDuplicatedFrom[] = {25};
constexpr double kNotDuplicated[] = {50, 4};
constexpr double kMostChannels[] = {64};
constexpr double kRedoubled[] = {45, 16};
constexpr double kThreads[] = {512, 640, 512};
constexpr double kThreadBytes[] = {8, 8, 64};
constexpr double kLaunch[] = {5};
constexpr double kPointToPointHop[] = {14};

// Columns: launch, step, efficiency, own bytes, ramp, half of the ramp. Ampere has no NVLS.
constexpr double kInside[] = {
    8.65, 0.94,  0.908, 1.189, 43.0, 4,    // Ampere, rings
    0,    0,     0,     0,     0,    0,    //
    11.0, 0.526, 0.883, 1.191, 34.2, 4,    //   exchanges
    4.94, 0.809, 1.009, 1.221, 21.4, 5,    // Hopper, rings
    25.0, 0.0,   0.987, 0.0,   74.4, 20,   //   NVLS
    6.63, 0.121, 0.809, 0.284, 9.5,  0.5,  //   exchanges
    7.78, 1.31,  0.963, 0.742, 17.5, 6,    // Blackwell, rings
    25.0, 0.0,   1.021, 0.0,   52.4, 8,    //   NVLS
    9.05, 0.402, 0.828, 1.321, 8.6,  0.5,  //   exchanges
};
constexpr double kRampBetween[] = {180, 42};

using Table = NcclTable;

// The table of one number.
constexpr NcclConstants single_row(Table table, const char* name, const char* unit,
                                   const char* source, std::span<const double> value) {
  return {table, name, unit, "", source, {1, 1, 1}, value};
}

constexpr NcclConstants table_row(Table table, const char* name, const char* unit,
                                  const char* index, const char* source, std::array<int, 3> size,
                                  std::span<const double> values) {
  return {table, name, unit, index, source, size, values};
}

constexpr NcclConstants kTables[] = {
    table_row(Table::base_latency, "base latency", "us", "algorithm, protocol", kTuning, {5, 3, 1},
              kBaseLatency),
    table_row(Table::hop_latency, "latency of a hop", "us",
              "NVLink or network, algorithm, protocol", kTuning, {2, 5, 3}, kHopLatency),
    table_row(Table::net_overhead, "network overhead of a step", "us",
              "vendor of the CPU: Intel, AMD", kModel, {2, 1, 1}, kNetOverhead),
    single_row(Table::net_overhead_simple, "factor of that overhead with Simple", "", kModel,
               kNetOverheadSimple),
    single_row(Table::ring_plateau, "factor of a ring's latency with Simple between nodes", "",
               kTime, kRingPlateau),
    single_row(Table::plateau_bytes, "bytes per channel and rank from which that factor holds", "B",
               kTime, kPlateauBytes),
    single_row(Table::pat_hops, "divisor of a PAT step's latency", "", kModel, kPatHops),
    single_row(Table::pat_per_rank, "latency of PAT per rank", "us", kModel, kPatPerRank),
    table_row(Table::ll_cap_one_node, "most of LL in one node", "GB/s", "Ampere, Hopper, Blackwell",
              kTuning, {3, 1, 1}, kLlCapOneNode),
    table_row(Table::ll_cap_nodes, "most of LL between nodes", "GB/s",
              "vendor of the CPU: Intel, AMD; 2 nodes, more", kTuning, {2, 2, 1}, kLlCapNodes),
    single_row(Table::ll_share, "share of LL in a ring", "", kModel, kLlShare),
    single_row(Table::ring_ll128_share, "share of LL128 in a ring", "", kModel, kRingLl128Share),
    table_row(Table::ring_ll128_cap, "most of LL128 in a ring, per channel", "GB/s",
              "2.28, 2.30; Ampere, Hopper, Blackwell; 1 node, 2, more", kTuning, {2, 3, 3},
              kRingLl128Cap),
    single_row(Table::tree_share, "share of a tree", "", kModel, kTreeShare),
    table_row(Table::tree_cap, "most of a tree, per channel", "GB/s",
              "Ampere, Hopper, Blackwell; 1 node, 2, more", kTuning, {3, 3, 1}, kTreeCap),
    single_row(Table::tree_ll_divisor, "divisor of LL in a tree", "", kModel, kTreeLlDivisor),
    table_row(Table::tree_ll128_share, "share of LL128 in a tree", "", "1 node, more", kModel,
              {2, 1, 1}, kTreeLl128Share),
    table_row(Table::tree_ll128_cap, "most of LL128 in a tree, per channel", "GB/s",
              "Ampere, Hopper, Blackwell; 1 node, 2, more", kTuning, {3, 3, 1}, kTreeLl128Cap),
    single_row(Table::tree_chain_share, "share of a tree that one GPU per node takes part in", "",
               kModel, kTreeChainShare),
    table_row(Table::tree_correction, "correction of a tree all-reduce by size", "",
              "protocol; log2(bytes / 64)", kTime, {3, 23, 1}, kTreeCorrection),
    single_row(Table::pat_share, "share of PAT", "", kModel, kPatShare),
    table_row(Table::nvls_efficiency, "efficiency of NVLS; 0: not available", "",
              "Ampere, Hopper, Blackwell", kModel, {3, 1, 1}, kNvlsEfficiency),
    table_row(Table::nvls_tree_cap, "most of NVLSTree, per channel; 0: not available", "GB/s",
              "2.28, 2.30; Ampere, Hopper, Blackwell; 2 nodes, more", kTuning, {2, 3, 2},
              kNvlsTreeCap),
    table_row(Table::nvls_fewest_gpus, "fewest GPUs of a node for NVLS", "", "2.28, 2.30",
              "NCCL 2.28.9 and 2.30.7, src/transport/nvls.cc, ncclNvlsInit", {2, 1, 1},
              kNvlsFewestGpus),
    single_row(
        Table::nvls_most_heads, "most GPUs of a node that NVLS has channels for", "",
        "NCCL 2.30.7, src/include/device.h, NCCL_MAX_NVLS_ARITY, as src/graph/search.cc uses it",
        kNvlsMostHeads),
    single_row(Table::fp8_ring_factor,
               "factor of a ring's cost when it reduces fp8 over many ranks", "",
               "NCCL 2.30.7, src/enqueue.cc", kFp8RingFactor),
    single_row(Table::fp8_ring_ranks, "most ranks without that factor", "",
               "NCCL 2.30.7, src/enqueue.cc", kFp8RingRanks),
    table_row(Table::nvlink, "one NVLink", "GB/s", "Ampere, Hopper, Blackwell", kTopology,
              {3, 1, 1}, kNvlink),
    table_row(
        Table::nvlink_nominal, "one NVLink by its datasheet, to count them", "GB/s",
        "Ampere, Hopper, Blackwell",
        "NVIDIA A100, H100 and B200 datasheets: 600, 900 and 1800 GB/s of 12, 18 and 18 links",
        {3, 1, 1}, kNvlinkNominal),
    table_row(Table::pcie, "PCIe x16", "GB/s", "generation 3, 4, 5, 6", kTopology, {4, 1, 1},
              kPcie),
    table_row(Table::pcie_generation, "generation of PCIe", "", "Ampere, Hopper, Blackwell",
              "NVIDIA A100, H100 and B200 datasheets", {3, 1, 1}, kPcieGeneration),
    table_row(Table::speeds_inside, "speeds of a channel tried in one node", "GB/s",
              "2.28, 2.30; Ampere, Hopper, Blackwell; in order, 0: none", kSearch, {2, 3, 13},
              kSpeedsInside),
    table_row(Table::speeds_between, "speeds of a channel tried between nodes", "GB/s",
              "2.28, 2.30; Ampere, Hopper, Blackwell; in order, 0: none", kSearch, {2, 3, 20},
              kSpeedsBetween),
    single_row(Table::duplicated_from, "slowest channel that is split in two", "GB/s", kSearch,
               kDuplicatedFrom),
    table_row(Table::not_duplicated,
              "from Hopper on not split: below this speed, and more channels than", "",
              "GB/s, channels", kSearch, {2, 1, 1}, kNotDuplicated),
    single_row(Table::most_channels, "most channels", "",
               "NCCL 2.28.9 and 2.30.7, src/include/device.h, MAXCHANNELS", kMostChannels),
    table_row(Table::redoubled,
              "channels doubled again between nodes from Hopper on: ring faster than this, and "
              "fewer than",
              "", "GB/s, channels", "NCCL 2.28.9 and 2.30.7, src/graph/connect.cc", {2, 1, 1},
              kRedoubled),
    table_row(Table::threads, "threads of a channel", "", "LL, LL128, Simple",
              "NCCL 2.28.9 and 2.30.7, src/include/device.h", {3, 1, 1}, kThreads),
    table_row(Table::thread_bytes, "bytes per thread below which channels are left out", "B",
              "LL (of a ring: per rank), LL128, Simple",
              "NCCL 2.28.9 and 2.30.7, src/include/comm.h, thread thresholds", {3, 1, 1},
              kThreadBytes),
    single_row(Table::launch, "launch of a point-to-point operation between nodes", "us",
               "inferred, not in NCCL: about the launch of a kernel and its proxy", kLaunch),
    single_row(Table::point_to_point_hop, "hop of a point-to-point operation between nodes", "us",
               "inferred, not in NCCL: the hop of its rings with Simple", kPointToPointHop),
    table_row(
        Table::inside, "operations inside an NVLink domain", "us, but for the third",
        "Ampere, Hopper, Blackwell; ring, NVLS, exchange; launch, step, efficiency, own MB, "
        "ramp, MB at its half",
        "fitted by tests/validation/fit_collectives.py to nccl-tests of NCCL 2.27.3 (A100) and "
        "2.29.2: nccl_one_node_aiconfigurator.csv",
        {3, 3, 6}, kInside),
    table_row(
        Table::ramp_between, "ramp of an operation between nodes", "us, MB",
        "ramp, size at its half",
        "fitted by tests/validation/fit_collectives.py to sums on 2 and 4 nodes of 8 H100 with "
        "InfiniBand: nccl_allreduce_sweeps.csv",
        {2, 1, 1}, kRampBetween),
};
static_assert(std::size(kTables) == kNcclTables);

}  // namespace

std::span<const NcclConstants> nccl_tables() { return kTables; }

const NcclConstants& nccl_table(NcclTable table) { return kTables[static_cast<int>(table)]; }

double nccl_constant(NcclTable table, int i, int j, int k) {
  const NcclConstants& row = nccl_table(table);
  const auto [rows, columns, depth] = row.size;
  if (i < 0 || i >= rows || j < 0 || j >= columns || k < 0 || k >= depth) {
    throw std::out_of_range(fmt::format("{}: no value ({}, {}, {})", row.name, i, j, k));
  }
  const int place = (i * columns + j) * depth + k;
  return row.values[static_cast<std::size_t>(place)];
}

std::string words_of(const NcclConstants& constants) {
  std::string text = std::string(constants.name) + " =";
  for (const double value : constants.values) text += fmt::format(" {}", value);
  if (*constants.unit != '\0') text += fmt::format(" {}", constants.unit);
  if (*constants.index != '\0') text += fmt::format(" ({})", constants.index);
  return text;
}

const char* name_of(NcclAlgorithm algorithm) {
  static constexpr const char* kNames[] = {"Tree", "Ring", "NVLS", "NVLSTree", "PAT"};
  return kNames[static_cast<int>(algorithm)];
}

const char* name_of(NcclProtocol protocol) {
  static constexpr const char* kNames[] = {"LL", "LL128", "Simple"};
  return kNames[static_cast<int>(protocol)];
}

const char* name_of(GpuGeneration generation) {
  static constexpr const char* kNames[] = {"Ampere", "Hopper", "Blackwell"};
  return kNames[static_cast<int>(generation)];
}

const char* name_of(NcclVersion version) {
  static constexpr const char* kNames[] = {"2.28.9", "2.30.7"};
  return kNames[static_cast<int>(version)];
}

}  // namespace shardsim
