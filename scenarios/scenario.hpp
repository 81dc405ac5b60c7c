#pragma once

// A scenario: everything a run depends on, as plain typed values.
//
// `load_scenario` (scenarios/load.hpp) is the only producer. Its result is complete and valid:
// presets are merged, "auto" is replaced by a number, and every range and divisibility has been
// checked. Code that reads a Scenario therefore checks nothing again.
//
// Units are in the names; GB is 10^9 bytes and GiB is 2^30 bytes. Sizes are int64_t because the
// product of two of them is taken everywhere; the loader has checked those products.
// Every field has one row in scenarios/fields_*.cpp, which is where its range, default and
// meaning are written down for users.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/kernel/tracked.hpp"

#include "strategies/optimizer/optimizer.hpp"

#include "scenarios/data_parallel_spec.hpp"
#include "scenarios/enumerations.hpp"
#include "scenarios/fault_spec.hpp"
#include "scenarios/model_spec.hpp"
#include "scenarios/network_spec.hpp"
#include "scenarios/output_spec.hpp"

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

  /// REQUIRES: one of these types, which stand in DType's order.
  [[nodiscard]] Tracked<double> of(DType precision) const {
    return std::array{fp64, fp32, bf16, fp16, fp8}.at(static_cast<std::size_t>(precision));
  }
};

struct DeviceSpec {
  std::string name;
  std::int64_t memory_bytes = 0;
  Tracked<double> memory_bandwidth_gb_per_s = 0;
  Tracked<double> memory_efficiency = 0;  // (0, 1]: share that the best streaming kernel reaches
  PeakTflops peak_tflops;
  Tracked<double> matmul_efficiency = 0;  // (0, 1]: share of the peak of the best large matmul
  Tracked<double> kernel_launch_us = 0;   // fixed cost of one kernel
  // Between device and host memory, per direction; 0: no link.
  Tracked<double> host_bandwidth_gb_per_s = 0;
  std::string kernels = "none";  // whose kernels' constants: one of all_kernel_constants()
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
  NetworkSpec network;
  DeviceSpec device;
  std::string kernel_model = "roofline";   // or "shapes": what an operation on a device costs
  std::string software = "none";           // or a framework's name: which kernels an operation is
  Tracked<double> host_us_per_kernel = 0;  // what the host spends on each,
  Tracked<double> host_us_per_call = 0;    // and on each communication
  bool overlap_slows_computing = true;     // by beside_communication of the device's kernels
  bool cuda_launch_blocking = false;       // the host waits for every kernel
};

/// The layout of the work. zero_stage names the state sharded over the dp_shard x cp ranks: 0 none
/// (plain data parallelism; all data_parallel_size() ranks are replicas), 1 optimizer state,
/// 2 also gradients, 3 also parameters. dp_replicate > 1 with a stage above 0 is hybrid sharding.
struct ParallelismSpec : DataParallelSpec {
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::int64_t cp = 1;
  ContextAttention cp_attention = ContextAttention::ring;
  std::int64_t cp_ulysses_degree = 1;  // of two_level; else cp for ulysses, and 1
  std::int64_t ep = 1;
  std::int64_t vpp = 1;
  std::int64_t dp_replicate = 1;
  std::int64_t dp_shard = 1;  // "auto" is resolved here
  bool sequence_parallel = false;
  std::vector<std::int64_t> stage_layers;  // of each stage, pp x vpp of them, in model order
  bool account_for_embedding_in_pipeline_split = false;  // stage_layers was made so, if derived
  bool account_for_loss_in_pipeline_split = false;
  std::string schedule = "none";
  std::string schedule_file;            // of schedule "file": CSV, relative to the scenario
  std::string rank_order = "tp-dp-pp";  // axes, the fastest first
  int zero_stage = 0;
  std::int64_t bucket_bytes = 0;        // gradient buckets of stages 0 to 2
  std::int64_t first_bucket_bytes = 0;  // the bucket that is ready first; never above bucket_bytes
  bool overlap_grad_reduce = true;      // reduce while backward still runs
  bool overlap_param_gather = true;     // gather while other units compute
  std::int64_t prefetch_units = 1;      // stage 3: units gathered ahead of use
  bool reshard_after_forward = true;    // stage 3: free gathered parameters after forward
  std::int64_t reductions_in_flight = 1;
  bool sync_every_microbatch = false;  // stages 2 and 3: reduce in each microbatch
  bool offload_optimizer = false;      // state and master weights live in host memory
  bool offload_gradients = false;      // stages 2 and 3: reduced gradients, too
  bool offload_parameters = false;     // stage 3: shards of weights, too

  std::int64_t data_parallel_size() const { return dp_replicate * dp_shard; }
  /// Ranks whose gradients are summed: those that see other samples, or other parts of the same.
  std::int64_t gradient_ranks() const { return data_parallel_size() * cp; }
  bool offloads() const { return offload_optimizer || offload_gradients || offload_parameters; }
};

struct PipelineSchedule;

/// The schedule that is read from schedule_file.
inline constexpr const char* kScheduleFromFile = "file";

/// Has the settings of all optimizers; each optimizer reads its own.
struct TrainingSpec : OptimizerOptions {
  std::int64_t global_batch_size = 0;  // sequences (rows for mlp) per optimizer step, all ranks
  std::int64_t micro_batch_size = 1;
  std::int64_t num_microbatches = 1;  // global_batch_size / (micro_batch_size * data parallel size)
  DType precision = DType::fp32;
  DType grad_reduce_dtype = DType::fp32;  // "auto" is resolved to the gradient's dtype
  OptimizerKind optimizer = OptimizerKind::adamw;
  double max_grad_norm = 0;   // 0: no clipping
  NormType grad_norm_type{};  // l2
  LossScaling::Mode loss_scaling = LossScaling::Mode::none;
  double loss_scale = 1;  // at the start, and always if it is constant
  std::int64_t loss_scale_growth_interval = 1;
  std::int64_t loss_scale_hysteresis = 1;
  Recompute recompute{};       // none
  double hidden_dropout = 0;   // [0, 1): of embedding and branch outputs
  double ignore_fraction = 0;  // [0, 1): targets the loss leaves out, drawn from the seed
  double tokens_total = 0;     // of the whole training, for its days and cost; 0: not said
};

struct ExecutionSpec {
  TensorMode tensors = TensorMode::meta;
  std::int64_t steps = 1;
  std::int64_t seed = 1;
  std::string backend = "fiber";
  ReductionOrder reduction_order = ReductionOrder::rank;
  Algorithm all_reduce_algorithm{};  // automatic
  bool buffered_sends = false;
  std::string fold = "off";     // off, auto, require: ranks that do the same are run once
  double memory_margin = 0.05;  // share of the device; a plan that leaves less gets a warning
};

/// The source of one number of the model or the system.
struct NumberSource {
  std::string field;   // "system.device.memory_bandwidth_gb_per_s"
  std::string source;  // "NVIDIA H100 datasheet (SXM)", "assumed: ...", "given in the scenario"
};

/// A file from which the scenario was made, besides its own.
struct FileRead {
  std::string what;  // "a preset", "model.moe_popularity_file"
  std::string path;
};

struct Scenario {
  std::int64_t schema_version = 1;
  std::string name;
  ModelSpec model;
  SystemSpec system;
  ParallelismSpec parallelism;
  TrainingSpec training;
  ExecutionSpec execution;
  FaultSpec faults;
  CostSpec cost;
  std::vector<Expectation> expect;
  OutputSpec output;

  std::shared_ptr<const PipelineSchedule> own_schedule;  // of schedule "file"; null otherwise
  std::vector<NumberSource> sources;                     // in the order of the field table
  std::string resolved_json;  // this scenario with nothing left out; a fixed text
  std::vector<std::string> warnings;
  std::vector<FileRead> files;
  /// Paths of fields whose value somebody chose (not a default or a preset) and whose reads a run
  /// notes.
  std::vector<std::string> chosen;
  /// Required numbers of a machine: named only if they always lose against an unstated limit.
  std::vector<std::string> required;
};

}  // namespace shardsim
