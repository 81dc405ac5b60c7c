#include "sim/experiment/derive.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "sim/hardware/architecture.hpp"
#include "sim/hardware/kernels/kernel_constants.hpp"
#include "sim/hardware/power.hpp"
#include "sim/hardware/software.hpp"

#include "scenarios/kernels_of.hpp"
#include "scenarios/nccl_platform.hpp"
#include "scenarios/stage_places.hpp"

namespace shardsim {

namespace {

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;
constexpr double kMicro = 1e-6;

Link link_of(const LinkSpec& link) {
  return {.bytes_per_s = link.bandwidth_gb_per_s.times(kGiga),
          .latency_s = link.latency_us.times(kMicro)};
}

Tracked<double> clock_share_of(const DeviceSpec& device) {
  if (!(device.power_limit_w.peek() > 0.0)) return 1.0;
  const double power = device.power_w.peek();
  Tracked<double> share =
      device.power_limit_w.map([&](double limit) { return clock_share(limit, power); });
  share.set_other_mark(device.power_w.mark());
  return share;
}

bool hits(const StragglerSpec& straggler, int rank, int node, int stage) {
  if (straggler.rank != kNotChosen) return straggler.rank == rank;
  if (straggler.node != kNotChosen) return straggler.node == node;
  return straggler.stage == stage;
}

std::vector<double> slowdown_of_ranks(const FaultSpec& spec, const Cluster& cluster,
                                      const MeshShape& mesh) {
  if (spec.stragglers.empty()) return {};
  std::vector<double> slowdown(static_cast<std::size_t>(mesh.size()), 1.0);
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const int stage = mesh.place_of(rank).pp;
    for (const StragglerSpec& straggler : spec.stragglers) {
      if (!hits(straggler, rank, cluster.node_of(rank), stage)) continue;
      slowdown[static_cast<std::size_t>(rank)] *= straggler.slowdown;
    }
  }
  return slowdown;
}

LinkTier link_tier_of(const LinkPlaceSpec& place) {
  return place.is_inside() ? LinkTier::intra_node : LinkTier::inter_node;
}

int faulty_node(const LinkPlaceSpec& place) {
  return place.node == kNotChosen ? kAllNodes : static_cast<int>(place.node);
}

// The faults that make steps slower, by ranks and nodes; null if there are none.
std::shared_ptr<const MachineFaults> faults_of(const FaultSpec& spec, const Cluster& cluster,
                                               const MeshShape& mesh) {
  ++derivations().faults;
  if (!spec.slows_steps()) return nullptr;
  auto faults = std::make_shared<MachineFaults>();
  faults->slowdown = slowdown_of_ranks(spec, cluster, mesh);
  for (const SlowLinkSpec& link : spec.slow_links) {
    faults->slow_links.push_back({.tier = link_tier_of(link.place),
                                  .node = faulty_node(link.place),
                                  .bandwidth_factor = link.bandwidth_factor,
                                  .added_latency_s = link.added_latency_us * kMicro});
  }
  for (const FlappingLinkSpec& link : spec.flapping_links) {
    faults->flapping_links.push_back({.tier = link_tier_of(link.place),
                                      .node = faulty_node(link.place),
                                      .down = Time::from_seconds(link.down_s),
                                      .period = Time::from_seconds(link.period_s),
                                      .phase = Time::from_seconds(link.phase_s)});
  }
  return faults;
}

// --- The plan ----------------------------------------------------------------------------------

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
  moe.latent_size = model.moe_latent_size;
  moe.has_expert_bias = model.moe_expert_bias;
  moe.shared_ffn_hidden_size = model.moe_shared_ffn_hidden_size;
  moe.has_shared_gate = model.moe_shared_gate;
  // Without groups their number per token has no effect, which is a warning.
  const bool has_groups = model.moe_router_num_groups > 1;
  moe.router = {.score = model.moe_router_score,
                .normalised = model.moe_router_normalised,
                .scaling_factor = model.moe_router_scaling_factor,
                .num_groups = model.moe_router_num_groups,
                .group_topk = has_groups ? model.moe_router_group_topk : 1,
                .group_score = model.moe_router_group_score,
                .bias_update_rate = model.moe_router_bias_update_rate,
                .has_logit_bias = model.moe_router_logit_bias,
                .weighs_input = model.moe_weight_on_input,
                .z_loss_coefficient = model.moe_z_loss_coeff};
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

LowPrecision low_precision_of(const Scenario& scenario) {
  const TrainingSpec& training = scenario.training;
  LowPrecision low;
  const auto recipes = all_recipes();
  for (std::size_t i = 0; i < recipes.size(); ++i) {
    if (training.fp8_recipe == recipes[i].name) low.recipe = static_cast<ScalingRecipe>(i);
  }
  low.keeps_codes = training.quantized_parameters &&
                    (scenario.parallelism.zero_stage == 3 || row_of(low.recipe).is_square());
  low.needs_transposes = scenario.system.device.architecture == "hopper";
  low.amax_history_len = training.amax_history_len;
  low.amax_compute = training.amax_compute;
  low.amax_update = training.amax_update;
  low.blocks_at_start = static_cast<int>(training.bf16_layers_at_start);
  low.blocks_at_end = static_cast<int>(training.bf16_layers_at_end);
  return low;
}

// One for each layer, where they differ.
std::vector<LayerOptions> layers_of(const ModelSpec& model) {
  std::vector<LayerOptions> layers;
  if (model.layers.empty()) return layers;
  for (const LayerSpec& layer : model.each_layer()) {
    layers.push_back({.mixer = layer.mixer,
                      .mask = {layer.attention, layer.window_size + layer.chunk_size},
                      .has_rotary = layer.rotary,
                      .rope_theta = layer.rope_theta,
                      .has_sinks = layer.sinks,
                      .feed_forward = layer.feed_forward,
                      .heads = layer.heads});
  }
  return layers;
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
  options.head_dim = model.head_dim;
  options.value_head_dim = model.value_head_dim;
  options.q_lora_rank = model.q_lora_rank;
  options.kv_lora_rank = model.kv_lora_rank;
  options.qk_nope_head_dim = model.qk_nope_head_dim;
  options.qk_rope_head_dim = model.qk_rope_head_dim;
  options.vocab_size = model.vocab_size;
  options.seq_len = model.seq_len;
  options.max_position_embeddings = model.max_position_embeddings;
  options.tied_embeddings = model.tied_embeddings;
  options.norm_epsilon = model.norm_epsilon;
  options.rope_theta = model.rope_theta;
  options.rotary_dim = model.rotary_dim;
  options.query_key_norm = model.query_key_norm;
  options.query_temperature = {model.query_temperature_scale, model.query_temperature_floor};
  options.query_key_value_bias = model.query_key_value_bias;
  options.attention_out_bias = model.attention_out_bias;
  options.attention_output_gate = model.attention_output_gate;
  options.attention_head_gate = model.attention_head_gate;
  options.value_norm = model.value_norm;
  options.value_scale = model.value_scale;
  options.attention_scale = model.attention_scale;
  options.attention_logit_cap = model.attention_logit_cap;
  options.final_logit_cap = model.final_logit_cap;
  options.activation = {model.activation, model.swiglu_limit, scenario.training.activation_store};
  options.mlp_bias = model.mlp_bias;
  options.mlp_gate_scale = model.mlp_gate_scale;
  options.mlp_output_scale = model.mlp_output_scale;
  options.norm = model.norm_kind;
  options.norm_placement = model.norm_placement;
  options.norm_zero_centred = model.norm_zero_centred;
  options.parallel_block = model.parallel_block;
  options.embedding_scale = model.embedding_scale;
  options.residual_scale = model.residual_scale;
  options.logit_scale = model.logit_scale;
  options.layers = layers_of(model);
  options.mtp_num_layers = model.mtp_num_layers;
  options.mtp_loss_scaling_factor = model.mtp_loss_scaling_factor;
  options.delta_net = model.delta_net;
  options.mamba = model.mamba;
  options.moe = moe_options_of(model);
  options.hidden_dropout = scenario.training.hidden_dropout;
  options.recompute = scenario.training.recompute;
  options.recompute_stops_early = software != nullptr && software->recompute_stops_early;
  options.recompute_modules = recompute_modules_of(scenario.training.recompute_modules);
  options.dtype = scenario.training.dtype();
  options.memory = memory_of(scenario.training, software);
  options.low = low_precision_of(scenario);
  options.graphs = graph_modules_of(scenario.system.cuda_graphs);
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

SyncPlan sync_plan_of(const Scenario& scenario, const Software* software) {
  const ParallelismSpec& parallelism = scenario.parallelism;
  SyncPlan sync;
  sync.weight_dtype = scenario.training.dtype();
  sync.master_dtype = scenario.training.master_dtype();
  sync.state_dtype = scenario.training.optimizer_state_dtype;
  sync.narrow_weights =
      scenario.training.quantized_parameters && scenario.training.has_low_products();
  sync.gradient_dtype = scenario.training.grad_reduce_dtype;
  sync.overlap_reduce = parallelism.overlap_grad_reduce;
  sync.overlap_gather = parallelism.overlap_param_gather;
  sync.prefetch_units = static_cast<int>(parallelism.prefetch_units);
  sync.reshard_after_forward = parallelism.reshard_after_forward;
  sync.copies_units = software != nullptr && software->copies_units &&
                      parallelism.zero_stage == 3 && parallelism.dp_shard > 1;
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
  if (scenario.training.uses_muon()) sync.muon = scenario.training.muon;
  if (parallelism.data_parallel == DataParallelKind::async_sgd) {
    sync.max_staleness = static_cast<int>(parallelism.max_staleness);
  }
  return sync;
}

}  // namespace

Cluster cluster_of(const SystemSpec& system) {
  ++derivations().clusters;
  Cluster cluster;
  cluster.name = system.name;
  cluster.num_nodes = static_cast<int>(system.nodes);
  cluster.gpus_per_node = static_cast<int>(system.gpus_per_node);
  cluster.intra_node = link_of(system.intra_node);
  cluster.inter_node = link_of(system.inter_node);
  cluster.pair_bytes_per_s = system.pair_gb_per_s.times(kGiga);
  cluster.nics_per_node = static_cast<int>(system.network.nics_per_node);
  // One pod of all nodes is the same as none.
  cluster.nodes_per_pod = static_cast<int>(std::min(system.network.nodes_per_pod, system.nodes));
  cluster.oversubscription = system.network.oversubscription;
  if (system.network.is_nccl()) {
    cluster.nccl = std::make_shared<const NcclPlatform>(nccl_platform_of(system));
  }
  Device& device = cluster.device;
  device.name = system.device.name;
  device.architecture = system.device.architecture;
  device.memory_bytes = system.device.memory_bytes;
  device.memory_bytes_per_s = system.device.memory_bandwidth_gb_per_s.times(kGiga);
  device.memory_efficiency = system.device.memory_efficiency;
  device.matmul_efficiency = system.device.matmul_efficiency;
  device.launch_s = system.device.kernel_launch_us.times(kMicro);
  device.clock_share = clock_share_of(system.device);
  device.host_bytes_per_s = system.device.host_bandwidth_gb_per_s.times(kGiga);
  if (system.kernel_model == "shapes") {
    device.own_kernels = kernels_of(system.device);
    device.kernels = device.own_kernels.get();
    if (system.overlap_slows_computing) {
      device.slowdown_beside_collectives = device.kernels->beside_communication.value;
    }
  }
  device.software = find_software(system.software);
  device.own_attention = find_attention_library(system.attention_library);
  device.workspaces = workspaces_of(device.software, *find_architecture(system.device.architecture),
                                    parse_workspace_config(system.cublas_workspace_config));
  // The optimizer's step is outside, and few kernels.
  const bool is_one_graph = graph_modules_of(system.cuda_graphs).has(GraphModule::full_iteration);
  device.host_s_per_kernel = system.host_us_per_kernel.times(is_one_graph ? 0.0 : kMicro);
  device.host_s_per_call = system.host_us_per_call.times(is_one_graph ? 0.0 : kMicro);
  device.host_waits_for_kernels = system.cuda_launch_blocking;
  for (const DType precision :
       {DType::fp64, DType::fp32, DType::bf16, DType::fp16, DType::fp8_e4m3, DType::fp4_e2m1}) {
    device.peak_flops_per_s.at(static_cast<std::size_t>(precision)) =
        system.device.peak_tflops.of(precision).times(kTera);
  }
  return cluster;
}

FiberOptions fiber_options_of(const Scenario& scenario, const Cluster& cluster,
                              const MeshShape& mesh) {
  FiberOptions options;
  options.cluster = cluster;
  options.cluster.device.attention_drops = attention_drops(scenario.training);
  options.cluster.faults = faults_of(scenario.faults, cluster, mesh);
  options.has_data = scenario.execution.tensors == TensorMode::real;
  options.reduction_order = scenario.execution.reduction_order;
  options.buffered_sends = scenario.execution.buffered_sends;
  options.all_reduce_algorithm = scenario.execution.all_reduce_algorithm;
  return options;
}

// --- The plan ----------------------------------------------------------------------------------

ParallelOptions parallel_options_of(const Scenario& scenario, const Software* software) {
  ++derivations().options;
  const ParallelismSpec& parallelism = scenario.parallelism;
  ParallelOptions options;
  options.model = model_options_of(scenario, software);
  // With one tensor-parallel rank the field has no effect, as the loader's warning says.
  options.model.sequence_parallel = parallelism.sequence_parallel && parallelism.tp > 1;
  options.model.overlaps_tensor_parallel = parallelism.overlaps_tensor_parallel();
  options.model.context_attention = parallelism.cp_attention;
  options.model.ulysses_degree = static_cast<int>(parallelism.cp_ulysses_degree);
  options.mesh = mesh_shape_of(parallelism);
  options.model.moe.dispatch_recipe = dispatch_recipe_of(parallelism, parallelism.ep);
  options.mesh.dispatch_nodes = dispatch_nodes_of(parallelism, scenario.system.gpus_per_node);
  options.offload = {.layers = parallelism.offload_layers,
                     .modules = offload_modules_of(parallelism.offload_modules),
                     .min_elements = parallelism.offload_min_elements};
  options.delays_weight_gradients = parallelism.delay_weight_gradients;
  options.zero_stage = parallelism.zero_stage;
  options.bucket_bytes = parallelism.bucket_bytes;
  options.first_bucket_bytes = parallelism.first_bucket_bytes;
  if (parallelism.schedule != "none" && scenario.own_schedule == nullptr) {
    options.schedule = parallelism.schedule;
  }
  if (scenario.own_schedule != nullptr) options.own_schedule = *scenario.own_schedule;
  options.num_chunks = static_cast<int>(parallelism.vpp);
  options.stage_split.layers = parallelism.stage_layers;
  options.training = training_plan_of(scenario);
  options.sync = sync_plan_of(scenario, software);
  if (parallelism.is_elastic()) {
    options.members.assign(parallelism.elastic_members.begin(), parallelism.elastic_members.end());
  }
  return options;
}

std::unique_ptr<const Optimizer> optimizer_of(const TrainingSpec& training) {
  ++derivations().optimizers;
  return make_optimizer(training.elementwise_optimizer(), training);
}

}  // namespace shardsim
