#include "sim/app/plan_of.hpp"

#include <algorithm>
#include <memory>

#include "sim/hardware/kernels/kernel_constants.hpp"
#include "sim/hardware/software.hpp"

#include "scenarios/nccl_platform.hpp"
#include "sim/app/faults/faults_of.hpp"

namespace shardsim {

DType dtype_of(Precision precision) {
  switch (precision) {
    case Precision::fp64:
      return DType::fp64;
    case Precision::fp32:
      return DType::fp32;
    case Precision::bf16:
      return DType::bf16;
    case Precision::fp16:
      return DType::fp16;
    case Precision::fp8:
      return DType::fp8_e4m3;
  }
  return DType::fp32;
}

namespace {

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;
constexpr double kMicro = 1e-6;

Link link_of(const LinkSpec& link) {
  return {.bytes_per_s = link.bandwidth_gb_per_s.times(kGiga),
          .latency_s = link.latency_us.times(kMicro)};
}

// Master weights and optimizer state of 16-bit training are fp32 (Micikevicius et al., "Mixed
// Precision Training", 2018).
DType master_dtype_of(DType weights) {
  return weights == DType::bf16 || weights == DType::fp16 ? DType::fp32 : weights;
}

LossScaling loss_scaling_of(const TrainingSpec& training) {
  LossScaling rule;
  switch (training.loss_scaling) {
    case LossScalingKind::none:
      break;
    case LossScalingKind::constant:
      rule.mode = LossScaling::Mode::constant;
      break;
    case LossScalingKind::dynamic:
      rule.mode = LossScaling::Mode::dynamic;
      break;
  }
  rule.initial_scale = training.loss_scale;
  // A scale that is asked for below the usual minimum is its own.
  rule.minimum_scale = std::min(rule.minimum_scale, training.loss_scale);
  rule.growth_interval = training.loss_scale_growth_interval;
  rule.hysteresis = training.loss_scale_hysteresis;
  return rule;
}

ContextAttention context_attention_of(const std::string& name) {
  if (name == "all_gather") return ContextAttention::all_gather;
  if (name == "ulysses") return ContextAttention::ulysses;
  return name == "two_level" ? ContextAttention::two_level : ContextAttention::ring;
}

RoutingKind routing_of(const std::string& name) {
  if (name == "uniform") return RoutingKind::uniform;
  if (name == "skewed") return RoutingKind::skewed;
  return name == "file" ? RoutingKind::listed : RoutingKind::learned;
}

MoeOptions moe_options_of(const ModelSpec& model) {
  MoeOptions moe;
  moe.num_experts = model.num_experts;
  if (moe.num_experts == 0) return moe;
  moe.experts_per_token = model.num_experts_per_token;
  moe.ffn_hidden_size = model.moe_ffn_hidden_size;
  moe.num_shared_experts = model.num_shared_experts;
  moe.first_dense_layers = model.first_dense_layers;
  moe.capacity_factor = model.moe_capacity_factor;
  moe.auxiliary_loss_coefficient = model.moe_aux_loss_coeff;
  moe.routing = routing_of(model.moe_routing);
  moe.skew = model.moe_skew;
  moe.popularity = model.moe_popularity;
  return moe;
}

// Attention drops where hidden layers do, as in Megatron-LM, whose two rates have one default.
bool attention_drops(const Scenario& scenario) { return scenario.training.hidden_dropout > 0.0; }

FrameworkMemory memory_of(const Scenario& scenario) {
  const Software* software = find_software(scenario.system.software);
  if (software == nullptr) return {};
  FrameworkMemory memory = software->memory;
  if (attention_drops(scenario)) memory.score_bytes += software->dropped_score_bytes;
  return memory;
}

Recompute recompute_of(const std::string& name) {
  if (name == "full") return Recompute::full;
  return name == "selective" ? Recompute::selective : Recompute::none;
}

}  // namespace

Cluster cluster_of(const SystemSpec& system) {
  Cluster cluster;
  cluster.name = system.name;
  cluster.num_nodes = static_cast<int>(system.nodes);
  cluster.gpus_per_node = static_cast<int>(system.gpus_per_node);
  cluster.intra_node = link_of(system.intra_node);
  cluster.inter_node = link_of(system.inter_node);
  cluster.nics_per_node = static_cast<int>(system.network.nics_per_node);
  // One pod of all nodes is the same as none.
  cluster.nodes_per_pod = static_cast<int>(std::min(system.network.nodes_per_pod, system.nodes));
  cluster.oversubscription = system.network.oversubscription;
  if (system.network.is_nccl()) {
    cluster.nccl = std::make_shared<const NcclPlatform>(nccl_platform_of(system));
  }
  Device& device = cluster.device;
  device.name = system.device.name;
  device.memory_bytes = system.device.memory_bytes;
  device.memory_bytes_per_s = system.device.memory_bandwidth_gb_per_s.times(kGiga);
  device.memory_efficiency = system.device.memory_efficiency;
  device.matmul_efficiency = system.device.matmul_efficiency;
  device.launch_s = system.device.kernel_launch_us.times(kMicro);
  device.host_bytes_per_s = system.device.host_bandwidth_gb_per_s.times(kGiga);
  if (system.kernel_model == "shapes") {
    device.kernels = find_kernel_constants(system.device.kernels);
    if (system.overlap_slows_computing) {
      device.slowdown_beside_collectives = device.kernels->beside_communication.value;
    }
  }
  device.software = find_software(system.software);
  device.host_s_per_kernel = system.host_us_per_kernel.times(kMicro);
  device.host_s_per_call = system.host_us_per_call.times(kMicro);
  device.host_waits_for_kernels = system.cuda_launch_blocking;
  for (const Precision precision :
       {Precision::fp64, Precision::fp32, Precision::bf16, Precision::fp16, Precision::fp8}) {
    device.peak_flops_per_s.at(static_cast<std::size_t>(dtype_of(precision))) =
        system.device.peak_tflops.of(precision).times(kTera);
  }
  return cluster;
}

ModelOptions model_options_of(const Scenario& scenario) {
  const ModelSpec& model = scenario.model;
  ModelOptions options;
  options.family = to_string(model.family);
  options.num_layers = model.num_layers;
  options.hidden_size = model.hidden_size;
  options.ffn_hidden_size = model.ffn_hidden_size;
  options.num_attention_heads = model.num_attention_heads;
  options.num_query_groups = model.num_query_groups;
  options.vocab_size = model.vocab_size;
  options.seq_len = model.seq_len;
  options.max_position_embeddings = model.max_position_embeddings;
  options.tied_embeddings = model.tied_embeddings;
  options.norm_epsilon = model.norm_epsilon;
  options.rope_theta = model.rope_theta;
  options.moe = moe_options_of(model);
  options.hidden_dropout = scenario.training.hidden_dropout;
  options.recompute = recompute_of(scenario.training.recompute);
  options.dtype = dtype_of(scenario.training.precision);
  options.memory = memory_of(scenario);
  return options;
}

std::unique_ptr<Optimizer> optimizer_of(const TrainingSpec& training) {
  return make_optimizer(to_string(training.optimizer), {.learning_rate = training.learning_rate,
                                                        .momentum = training.momentum,
                                                        .beta1 = training.beta1,
                                                        .beta2 = training.beta2,
                                                        .epsilon = training.epsilon,
                                                        .weight_decay = training.weight_decay,
                                                        .rms_alpha = training.rms_alpha});
}

TrainingPlan training_plan_of(const Scenario& scenario) {
  const TrainingSpec& training = scenario.training;
  return {.steps = scenario.execution.steps,
          .micro_batch_size = training.micro_batch_size,
          .num_microbatches = training.num_microbatches,
          .seed = static_cast<std::uint64_t>(scenario.execution.seed),
          .ignore_fraction = training.ignore_fraction,
          .max_grad_norm = training.max_grad_norm,
          .grad_norm_type =
              training.grad_norm_type == GradNorm::l2 ? NormType::two : NormType::infinity,
          .loss_scaling = loss_scaling_of(training)};
}

FiberOptions fiber_options_of(const Scenario& scenario) {
  FiberOptions options;
  options.cluster = cluster_of(scenario.system);
  options.cluster.device.attention_drops = attention_drops(scenario);
  options.cluster.faults = faults_of(scenario);
  options.has_data = scenario.execution.tensors == TensorMode::real;
  options.reduction_order = scenario.execution.reduction_order;
  options.buffered_sends = scenario.execution.buffered_sends;
  switch (scenario.execution.all_reduce_algorithm) {
    case AllReduceAlgorithm::automatic:
      options.all_reduce_algorithm = Algorithm::automatic;
      break;
    case AllReduceAlgorithm::ring:
      options.all_reduce_algorithm = Algorithm::ring;
      break;
    case AllReduceAlgorithm::tree:
      options.all_reduce_algorithm = Algorithm::tree;
      break;
  }
  return options;
}

namespace {

CompressionKind compression_of(GradientCompressionKind kind) {
  switch (kind) {
    case GradientCompressionKind::none:
      return CompressionKind::none;
    case GradientCompressionKind::top_k:
      return CompressionKind::top_k;
    case GradientCompressionKind::int8:
      return CompressionKind::int8;
  }
  return CompressionKind::none;
}

SyncPlan sync_plan_of(const Scenario& scenario) {
  const ParallelismSpec& parallelism = scenario.parallelism;
  SyncPlan sync;
  sync.weight_dtype = dtype_of(scenario.training.precision);
  sync.master_dtype = master_dtype_of(sync.weight_dtype);
  sync.gradient_dtype = dtype_of(scenario.training.grad_reduce_dtype);
  sync.overlap_reduce = parallelism.overlap_grad_reduce;
  sync.overlap_gather = parallelism.overlap_param_gather;
  sync.prefetch_units = static_cast<int>(parallelism.prefetch_units);
  sync.reshard_after_forward = parallelism.reshard_after_forward;
  sync.reductions_in_flight = static_cast<int>(parallelism.reductions_in_flight);
  sync.reduce_every_microbatch = parallelism.sync_every_microbatch;
  sync.offload_optimizer = parallelism.offload_optimizer;
  sync.offload_gradients = parallelism.offload_gradients;
  sync.offload_parameters = parallelism.offload_parameters;
  if (parallelism.trains_apart()) {
    sync.local = {.sync_period = parallelism.sync_period,
                  .outer_optimizer = parallelism.data_parallel == DataParallelKind::diloco,
                  .outer_learning_rate = parallelism.outer_learning_rate,
                  .outer_momentum = parallelism.outer_momentum};
  }
  sync.compression = {.kind = compression_of(parallelism.gradient_compression),
                      .ratio = parallelism.compression_ratio,
                      .block_size = parallelism.compression_block_size,
                      .error_feedback = parallelism.error_feedback};
  if (parallelism.data_parallel == DataParallelKind::async_sgd) {
    sync.max_staleness = static_cast<int>(parallelism.max_staleness);
  }
  return sync;
}

}  // namespace

GlobalBatch global_batch_of(const ParallelOptions& options) {
  const TrainingPlan& training = options.training;
  const std::int64_t microbatch = training.micro_batch_size * options.mesh.data_size();
  GlobalBatch batch(microbatch * training.num_microbatches);
  batch.context_parts = options.mesh.cp;
  batch.token_shards = options.model.sequence_parallel ? options.mesh.tp : 1;
  const MoeOptions& moe = options.model.moe;
  if (moe.num_experts > 0 && moe.drops_tokens()) batch.coupled_samples = training.micro_batch_size;
  if (moe.num_experts > 0 && moe.balances_load()) batch.coupled_samples = microbatch;
  batch.samples_at_once = training.micro_batch_size;
  const MeshShape& mesh = options.mesh;
  // Roundings: the parts of a sum over tensor-parallel ranks, the sum itself, and a bias added to
  // it; merged blocks of attention; results from experts elsewhere; shares of experts, summed over
  // ranks.
  batch.activation_roundings = 1 + (mesh.tp > 1 ? 2 : 0) + (mesh.cp - 1) + (mesh.ep > 1 ? 1 : 0) +
                               (batch.coupled_samples > training.micro_batch_size ? 1 : 0);
  return batch;
}

ParallelOptions parallel_options_of(const Scenario& scenario) {
  const ParallelismSpec& parallelism = scenario.parallelism;
  ParallelOptions options;
  options.model = model_options_of(scenario);
  // With one tensor-parallel rank the field has no effect, as the loader's warning says.
  options.model.sequence_parallel = parallelism.sequence_parallel && parallelism.tp > 1;
  options.model.context_attention = context_attention_of(parallelism.cp_attention);
  options.model.ulysses_degree = static_cast<int>(parallelism.cp_ulysses_degree);
  options.mesh = mesh_shape_of(parallelism);
  options.zero_stage = parallelism.zero_stage;
  options.bucket_bytes = parallelism.bucket_bytes;
  options.first_bucket_bytes = parallelism.first_bucket_bytes;
  if (parallelism.pp > 1 && scenario.own_schedule == nullptr) {
    options.schedule = parallelism.schedule;
  }
  if (scenario.own_schedule != nullptr) options.own_schedule = *scenario.own_schedule;
  options.num_chunks = static_cast<int>(parallelism.vpp);
  options.stage_split.layers = parallelism.stage_layers;
  options.training = training_plan_of(scenario);
  options.sync = sync_plan_of(scenario);
  if (parallelism.is_elastic()) {
    options.members.assign(parallelism.elastic_members.begin(), parallelism.elastic_members.end());
  }
  return options;
}

}  // namespace shardsim
