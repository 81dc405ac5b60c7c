#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/kernel/dtype.hpp"
#include "sim/kernel/tracked.hpp"

// The machine of a scenario, and its faults: parts that are slower than the rest always or now and
// then, and failures that stop the training. No fault is assumed that the scenario does not say.
namespace shardsim {

/// One tier of links. Bandwidth is per GPU and per direction; latency is of one message.
struct LinkSpec {
  Tracked<double> bandwidth_gb_per_s = 0;
  Tracked<double> latency_us = 0;
};

/// Peak arithmetic rates of one device. 0 means that the device has no figure for the precision;
/// the one in `training.precision` is never 0 in a loaded scenario.
struct PeakTflops {
  Tracked<double> fp64 = 0;
  Tracked<double> fp32 = 0;
  Tracked<double> bf16 = 0;
  Tracked<double> fp16 = 0;
  Tracked<double> fp8 = 0;
  Tracked<double> fp4 = 0;

  /// REQUIRES: one of these types, of which the first five stand in DType's order.
  [[nodiscard]] Tracked<double> of(DType precision) const {
    if (precision == DType::fp4_e2m1) return fp4;
    return std::array{fp64, fp32, bf16, fp16, fp8}.at(static_cast<std::size_t>(precision));
  }
};

/// A constant of kernels in place of that of the GPU which `kernels` names.
struct KernelConstantSpec {
  std::string name;  // of constants_of()
  double value = 0;
  std::string source;
};

struct DeviceSpec {
  std::string name;
  std::string architecture;  // one of all_architectures()
  std::int64_t memory_bytes = 0;
  Tracked<double> memory_bandwidth_gb_per_s = 0;
  Tracked<double> memory_efficiency = 0;  // (0, 1]: share that the best streaming kernel reaches
  PeakTflops peak_tflops;
  Tracked<double> matmul_efficiency = 0;  // (0, 1]: share of the peak of the best large matmul
  Tracked<double> kernel_launch_us = 0;   // fixed cost of one kernel
  Tracked<double> power_w = 0;            // at which it has its rates; 0: not known
  Tracked<double> power_limit_w = 0;      // 0: none but that
  // Between device and host memory, per direction; 0: no link.
  Tracked<double> host_bandwidth_gb_per_s = 0;
  std::string kernels = "none";  // whose kernels' constants: one of all_kernel_constants(),
  std::vector<KernelConstantSpec> kernel_constants;  // but for these
};

/// Measured corrections of NCCL's own constants on one tier.
struct TierCorrection {
  Tracked<double> bandwidth_factor = 1.0;
  Tracked<double> added_latency_us = 0.0;
};

/// The price model of communication, and further machine data for NCCL's cost model.
struct NetworkSpec {
  std::string model = "alpha_beta";               // or "nccl"
  std::string gpu_generation = "by_device_name";  // or "ampere", "hopper", "blackwell"
  std::string cpu_vendor = "intel";               // or "amd"
  std::string nccl_version = "2.30.7";            // or "2.28.9"
  std::int64_t nics_per_node = 0;                 // 0: one per GPU
  std::int64_t nodes_per_pod = 0;                 // 0: all nodes
  Tracked<double> oversubscription = 1.0;         // between pods
  Tracked<double> pcie_gb_per_s = 0;  // between a GPU and its network card; nccl only, else 0
  std::string nccl_algorithms;        // as NCCL_ALGO; empty: all
  std::string nccl_protocols;         // as NCCL_PROTO; empty: all
  TierCorrection intra_node;          // of NCCL's prices
  TierCorrection inter_node;

  bool is_nccl() const { return model == "nccl"; }
};

/// The machine. ranks == nodes * gpus_per_node, one rank per GPU, node by node.
struct SystemSpec {
  std::string name;
  std::string preset;  // "" when the system is given inline
  std::int64_t nodes = 0;
  std::int64_t gpus_per_node = 0;
  std::int64_t ranks = 0;
  LinkSpec intra_node;
  LinkSpec inter_node;
  Tracked<double> pair_gb_per_s = 0;  // between two GPUs of a node without a switch; 0: a switch
  NetworkSpec network;
  DeviceSpec device;
  std::string kernel_model = "roofline";  // or "shapes": what an operation on a device costs
  std::string software = "none";          // or a framework's name: which kernels an operation is
  bool software_is_default = false;       // nobody asked for it,
  std::string attention_library = "software";  // or the name of an AttentionLibrary
  Tracked<double> host_us_per_kernel = 0;      // what the host spends on each,
  Tracked<double> host_us_per_call = 0;        // and on each communication
  std::string cublas_workspace_config;  // as CUBLAS_WORKSPACE_CONFIG; empty: PyTorch's default
  bool overlap_slows_computing = true;  // by beside_communication of the device's kernels
  bool cuda_launch_blocking = false;    // the host waits for every kernel
  std::string cuda_graphs = "none";     // graph_modules_of: what the host launches as graphs
};

/// In a place of a fault: not chosen.
inline constexpr std::int64_t kNotChosen = -1;

/// Ranks that compute `slowdown` times as long. Exactly one of rank, stage and node chooses them.
struct StragglerSpec {
  std::int64_t rank = kNotChosen;
  std::int64_t stage = kNotChosen;  // Pipeline stage: a coordinate on the axis pp.
  std::int64_t node = kNotChosen;
  double slowdown = 1;
};

/// The links of a fault: those of a tier, on one node or on all.
struct LinkPlaceSpec {
  std::int64_t node = kNotChosen;
  std::string tier = "inter_node";  // or "intra_node"

  bool is_inside() const { return tier == "intra_node"; }
};

struct SlowLinkSpec {
  LinkPlaceSpec place;
  double bandwidth_factor = 1;
  double added_latency_us = 0;
};

/// Links that are down for `down_s` of every `period_s`, at first `phase_s` after the start.
struct FlappingLinkSpec {
  LinkPlaceSpec place;
  double down_s = 0;
  double period_s = 0;
  double phase_s = 0;
};

/// A random factor of at least almost 1. With spread s and a uniform u in (0, 1): uniform 1 + s u,
/// exponential 1 - s ln(1 - u), lognormal exp(s z) with a standard normal z.
enum class FactorShape : std::uint8_t { none, uniform, exponential, lognormal };

struct FactorSpec {
  FactorShape distribution = FactorShape::none;
  double spread = 0;
};

/// Each part is a straggler with `probability`, independently; then it computes `slowdown` times as
/// long, times a drawn factor.
struct DrawnStragglerSpec {
  std::string part = "rank";  // or "node", "stage"
  double probability = 0;
  double slowdown = 1;
  FactorSpec factor;
};

/// Faults that are drawn many times: what a training may meet.
struct DrawSpec {
  std::int64_t count = 0;  // 0: nothing is drawn
  std::int64_t seed = 0;
  double training_days =
      0;  // in which failures are drawn; 0: those of training.tokens_total, or 30
  std::vector<DrawnStragglerSpec> stragglers;
  FactorSpec compute_jitter;        // of each operation of each rank
  FactorSpec communication_jitter;  // of each communication

  bool has_jitter() const { return compute_jitter.spread > 0 || communication_jitter.spread > 0; }
  /// Whether steps differ, and not only what failures leave of them.
  bool changes_steps() const { return !stragglers.empty() || has_jitter(); }
};

struct FaultSpec {
  std::vector<StragglerSpec> stragglers;
  std::vector<SlowLinkSpec> slow_links;
  std::vector<FlappingLinkSpec> flapping_links;

  // Failures that stop the training, which goes on from the last checkpoint. 0: none.
  double gpu_mtbf_hours = 0;
  double node_mtbf_hours = 0;
  std::int64_t observed_failures = 0;  // failures behind the figures above; 0: not known
  double checkpoint_interval_s = 0;    // of training between two checkpoints; 0: Daly's optimum
  double checkpoint_write_s = 0;       // 0: by checkpoint_gb_per_s
  double checkpoint_gb_per_s = 0;
  double detection_s = 0;
  double restart_s = 0;

  DrawSpec draws;

  bool slows_steps() const {
    return !stragglers.empty() || !slow_links.empty() || !flapping_links.empty();
  }
  bool has_failures() const { return gpu_mtbf_hours > 0 || node_mtbf_hours > 0; }
};

}  // namespace shardsim
