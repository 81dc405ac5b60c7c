#include <algorithm>
#include <memory>

#include "sim/hardware/software.hpp"

#include "scenarios/stage_places.hpp"
#include "sim/experiment/derive.hpp"

namespace shardsim {

namespace {

// Master weights and optimizer state of 16-bit training are fp32 (Micikevicius et al., "Mixed
// Precision Training", 2018).
DType master_dtype_of(DType weights) {
  return weights == DType::bf16 || weights == DType::fp16 ? DType::fp32 : weights;
}

LossScaling loss_scaling_of(const TrainingSpec& training) {
  LossScaling rule;
  rule.mode = training.loss_scaling;
  rule.initial_scale = training.loss_scale;
  // A scale that is asked for below the usual minimum is its own.
  rule.minimum_scale = std::min(rule.minimum_scale, training.loss_scale);
  rule.growth_interval = training.loss_scale_growth_interval;
  rule.hysteresis = training.loss_scale_hysteresis;
  return rule;
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
  moe.routing = model.moe_routing;
  moe.skew = model.moe_skew;
  moe.popularity = model.moe_popularity;
  return moe;
}

FrameworkMemory memory_of(const TrainingSpec& training, const Software* software) {
  if (software == nullptr) return {};
  FrameworkMemory memory = software->memory;
  if (attention_drops(training)) memory.score_bytes += software->dropped_score_bytes;
  return memory;
}

ModelOptions model_options_of(const Scenario& scenario, const Software* software) {
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
  options.recompute = scenario.training.recompute;
  options.dtype = scenario.training.precision;
  options.memory = memory_of(scenario.training, software);
  return options;
}

TrainingPlan training_plan_of(const Scenario& scenario) {
  const TrainingSpec& training = scenario.training;
  return {.steps = scenario.execution.steps,
          .micro_batch_size = training.micro_batch_size,
          .num_microbatches = training.num_microbatches,
          .seed = static_cast<std::uint64_t>(scenario.execution.seed),
          .ignore_fraction = training.ignore_fraction,
          .max_grad_norm = training.max_grad_norm,
          .grad_norm_type = training.grad_norm_type,
          .loss_scaling = loss_scaling_of(training)};
}

SyncPlan sync_plan_of(const Scenario& scenario) {
  const ParallelismSpec& parallelism = scenario.parallelism;
  SyncPlan sync;
  sync.weight_dtype = scenario.training.precision;
  sync.master_dtype = master_dtype_of(sync.weight_dtype);
  sync.gradient_dtype = scenario.training.grad_reduce_dtype;
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
  sync.compression = parallelism.compression;
  if (parallelism.data_parallel == DataParallelKind::async_sgd) {
    sync.max_staleness = static_cast<int>(parallelism.max_staleness);
  }
  return sync;
}

}  // namespace

ParallelOptions parallel_options_of(const Scenario& scenario, const Software* software) {
  ++derivations().options;
  const ParallelismSpec& parallelism = scenario.parallelism;
  ParallelOptions options;
  options.model = model_options_of(scenario, software);
  // With one tensor-parallel rank the field has no effect, as the loader's warning says.
  options.model.sequence_parallel = parallelism.sequence_parallel && parallelism.tp > 1;
  options.model.context_attention = parallelism.cp_attention;
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

std::unique_ptr<const Optimizer> optimizer_of(const TrainingSpec& training) {
  ++derivations().optimizers;
  return make_optimizer(training.optimizer, training);
}

}  // namespace shardsim
