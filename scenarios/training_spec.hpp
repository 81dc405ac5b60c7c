#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strategies/gradient_sync/data_parallel.hpp"
#include "strategies/model/recompute.hpp"
#include "strategies/optimizer/muon.hpp"
#include "strategies/optimizer/optimizer.hpp"

#include "scenarios/enumerations.hpp"
#include "scenarios/model_spec.hpp"

// The training of a scenario: its layout, and its batch, precision and optimizer.
namespace shardsim {

/// Alternatives to a sum of every gradient in every step: a part of ParallelismSpec.
struct DataParallelSpec {
  DataParallelKind data_parallel = DataParallelKind::synchronous;
  std::int64_t sync_period = 1;    // local_sgd, diloco: updates between averages
  double outer_learning_rate = 0;  // diloco
  double outer_momentum = 0;
  std::int64_t max_staleness = 0;             // async_sgd: updates
  std::vector<std::int64_t> elastic_members;  // elastic: ranks in each step, the last for the rest
  std::int64_t elastic_min = 1;
  std::int64_t elastic_max = 1024;
  GradientCompression compression;

  bool trains_apart() const {
    return data_parallel == DataParallelKind::local_sgd ||
           data_parallel == DataParallelKind::diloco;
  }
  bool is_elastic() const { return data_parallel == DataParallelKind::elastic; }
  bool compresses() const { return compression.acts(); }
  /// Whether training differs on purpose from that of one device on the whole batch.
  bool changes_algorithm() const {
    return trains_apart() || data_parallel == DataParallelKind::async_sgd || compresses();
  }
};

/// The layout of the work. zero_stage names the state sharded over the dp_shard x cp ranks: 0 none
/// (plain data parallelism; all data_parallel_size() ranks are replicas), 1 optimizer state,
/// 2 also gradients, 3 also parameters. dp_replicate > 1 with a stage above 0 is hybrid sharding.
struct ParallelismSpec : DataParallelSpec {
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::int64_t cp = 1;
  ContextAttention cp_attention = kDefaultContextAttention;
  std::int64_t cp_ulysses_degree = 1;  // ranks that exchange heads: exchanging_ranks() of cp
  std::int64_t ep = 1;
  std::int64_t etp = 1;
  ExpertDispatch expert_dispatch{};  // per_expert
  ExpertPayload expert_payload{};    // training
  std::int64_t vpp = 1;
  std::int64_t dp_replicate = 1;
  std::int64_t dp_shard = 1;  // "auto" is resolved here
  bool sequence_parallel = false;
  bool overlap_tensor_parallel = false;    // with sequence_parallel: products hide its traffic
  std::vector<std::int64_t> stage_layers;  // of each stage, pp x vpp of them, in model order
  bool account_for_embedding_in_pipeline_split = false;  // stage_layers was made so, if derived
  bool account_for_loss_in_pipeline_split = false;
  std::string schedule = "none";
  std::string schedule_file;            // of schedule "file": CSV, relative to the scenario
  bool delay_weight_gradients = false;  // in blocks, to where a backward would wait for tokens
  std::string rank_order = "tp-dp-pp";  // axes, the fastest first
  int zero_stage = 0;
  std::int64_t bucket_bytes = 0;        // gradient buckets of stages 0 to 2
  std::int64_t first_bucket_bytes = 0;  // the bucket that is ready first; never above bucket_bytes
  bool overlap_grad_reduce = true;      // reduce while backward still runs
  bool overlap_param_gather = true;     // gather while other units compute
  std::int64_t prefetch_units = 1;      // stage 3: units gathered ahead of use
  bool reshard_after_forward = true;    // stage 3: free gathered parameters after forward
  std::int64_t reductions_in_flight = 1;
  bool sync_every_microbatch = false;          // stages 2 and 3: reduce in each microbatch
  bool offload_optimizer = false;              // state and master weights live in host memory
  bool offload_gradients = false;              // stages 2 and 3: reduced gradients, too
  bool offload_parameters = false;             // stage 3: shards of weights, too
  std::int64_t offload_layers = 0;             // first so many of a model chunk: activations, too
  std::string offload_modules = "everything";  // of these layers
  std::int64_t offload_min_elements = std::int64_t{1} << 20;  // smaller tensors stay

  std::int64_t data_parallel_size() const { return dp_replicate * dp_shard; }
  /// Ranks whose gradients are summed: those that see other samples, or other parts of the same.
  std::int64_t gradient_ranks() const { return data_parallel_size() * cp; }
  bool overlaps_tensor_parallel() const {
    return overlap_tensor_parallel && sequence_parallel && tp > 1;
  }
  bool offloads() const { return offload_optimizer || offload_gradients || offload_parameters; }
  bool offloads_activations() const { return offload_layers > 0; }
  bool uses_host_memory() const { return offloads() || offloads_activations(); }
};

/// The schedule that is read from schedule_file.
inline constexpr const char* kScheduleFromFile = "file";

/// The optimizer that is no row: matrices by Muon, the rest by another.
inline constexpr const char* kMuon = "muon";

/// Has the settings of all optimizers; each optimizer reads its own.
struct TrainingSpec : OptimizerOptions {
  std::int64_t global_batch_size = 0;  // sequences (rows for mlp) per optimizer step, all ranks
  std::int64_t micro_batch_size = 1;
  std::int64_t num_microbatches = 1;  // global_batch_size / (micro_batch_size * data parallel size)
  Precision precision = Precision::fp32;
  std::string fp8_recipe = "none";        // a row of all_recipes(); none: products are as the rest
  std::int64_t amax_history_len = 1;      // of fp8_recipe delayed: steps, or microbatches
  AmaxCompute amax_compute{};             // most_recent
  AmaxUpdate amax_update{};               // step
  bool quantized_parameters = false;      // weights of such products are kept in these bits alone
  std::int64_t bf16_layers_at_start = 0;  // layers whose products are not in low precision
  std::int64_t bf16_layers_at_end = 0;
  DType grad_reduce_dtype = DType::fp32;       // "auto" is resolved to the gradient's dtype
  DType optimizer_state_dtype = DType::fp32;   // "auto" is resolved to the master weights' dtype
  std::string optimizer{default_optimizer()};  // a row of strategies/optimizer/rules.cpp, or kMuon
  MuonOptions muon;                            // read by kMuon
  std::string muon_scalar_optimizer{default_optimizer()};  // a row, for what Muon does not take
  double max_grad_norm = 0;                                // 0: no clipping
  NormType grad_norm_type{};                               // l2
  LossScaling::Mode loss_scaling = LossScaling::Mode::none;
  double loss_scale = 1;  // at the start, and always if it is constant
  std::int64_t loss_scale_growth_interval = 1;
  std::int64_t loss_scale_hysteresis = 1;
  Recompute recompute{};                                                // none
  std::string recompute_modules = to_string(kDefaultRecomputeModules);  // if it is selective
  ActivationStore activation_store{};                                   // same
  double hidden_dropout = 0;   // [0, 1): of embedding and branch outputs
  double ignore_fraction = 0;  // [0, 1): targets the loss leaves out, drawn from the seed
  double tokens_total = 0;     // of the whole training, for its days and cost; 0: not said

  /// The type of weights, activations and gradients.
  [[nodiscard]] DType dtype() const {
    return precision >= Precision::fp8 ? DType::bf16 : static_cast<DType>(precision);
  }
  /// The type of the weights that the optimizer updates: fp32 in 16-bit training (Micikevicius et
  /// al., "Mixed Precision Training", 2018).
  [[nodiscard]] DType master_dtype() const {
    return dtype() == DType::bf16 || dtype() == DType::fp16 ? DType::fp32 : dtype();
  }
  /// Whether products of linear layers are in fewer bits. With fp64 a recipe can be verified.
  [[nodiscard]] bool has_low_products() const {
    return precision >= Precision::fp8 || fp8_recipe != "none";
  }
  /// The type of the operands of the products of linear layers.
  [[nodiscard]] DType product_dtype() const {
    if (!has_low_products()) return dtype();
    const bool is_fp4 =
        precision == Precision::nvfp4 || (precision == Precision::fp64 && fp8_recipe == "nvfp4");
    return is_fp4 ? DType::fp4_e2m1 : DType::fp8_e4m3;
  }
  [[nodiscard]] bool uses_muon() const { return optimizer == kMuon; }
  /// A row of strategies/optimizer/rules.cpp: of all weights, or of those that Muon does not take.
  [[nodiscard]] const std::string& elementwise_optimizer() const {
    return uses_muon() ? muon_scalar_optimizer : optimizer;
  }
};

/// Whether gradients pass through fp16. Only this type here has a smaller range than the fp32 of
/// their sums, so that they can overflow and vanish.
[[nodiscard]] inline bool has_narrow_gradients(const TrainingSpec& training) {
  return training.precision == Precision::fp16 || training.grad_reduce_dtype == DType::fp16;
}

}  // namespace shardsim
