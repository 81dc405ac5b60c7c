#include "sim/experiment/assumptions.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/hash.hpp"

#include "sim/hardware/architecture.hpp"
#include "sim/hardware/outside_memory.hpp"
#include "sim/hardware/software.hpp"

#include "strategies/gradient_sync/compressors.hpp"
#include "strategies/training/train.hpp"

#include "scenarios/stage_places.hpp"
#include "scenarios/training_spec.hpp"
#include "sim/experiment/derive.hpp"
#include "sim/experiment/experiment.hpp"

namespace shardsim {

namespace {

// Workspaces of libraries of matrix products.
Assumption workspaces_of_libraries(const Experiment& experiment) {
  const SystemSpec& system = experiment.scenario().system;
  const Workspaces& kept = experiment.cluster().device.workspaces;
  if (kept.bytes() == 0) {
    return {fmt::format("No library keeps a workspace of its own (system.software {}, "
                        "system.device.architecture {})",
                        system.software, system.device.architecture),
            "modelling choice: what is not known counts as nothing"};
  }
  const Architecture& architecture = *find_architecture(system.device.architecture);
  const bool is_set = !system.cublas_workspace_config.empty();
  std::string text = fmt::format("{} handles of the library of matrix products keep {} bytes each",
                                 kept.handles, kept.handle_bytes);
  std::string source =
      is_set ? "system.cublas_workspace_config" : architecture.handle_workspace.source;
  if (kept.engine_bytes > 0) {
    text += fmt::format(", and Transformer Engine keeps {}", kept.engine_bytes);
    source += fmt::format("; {}", architecture.engine_workspace.source);
  }
  return {std::move(text), std::move(source)};
}

// The assumptions of every run.
Assumptions general(const Experiment& experiment) {
  Assumptions assumptions = price_of_computing(experiment);
  const SourcedBytes& context = cuda_context_of(experiment.software());
  const bool is_plan = experiment.scenario().execution.tensors == TensorMode::meta;
  append_assumptions(assumptions, {{"Flops of causal attention count half of the score matrix; "
                                    "what is no matrix product is bound by the bytes it moves",
                                    "modelling choice"}});
  append_assumptions(assumptions, price_of_communication(experiment));
  append_assumptions(
      assumptions,
      {beside_communication(experiment),
       {"All operations of one axis run one after the other: all-gathers and reduce-scatters of "
        "the shard axis share one communicator and its stream",
        "as one NCCL communicator does; modelling choice"},
       {"Data loading and token transfer cost nothing, as does the host but for what it issues",
        "modelling choice"},
       {"Between nodes a ring uses the network cards of all its members on a node at once",
        "as NCCL's rings do; modelling choice"},
       {"Memory by category counts bytes of live tensors; workspaces of libraries are no part of "
        "it",
        "modelling choice"},
       workspaces_of_libraries(experiment),
       {is_plan ? "The verdict on memory counts what the allocator has reserved, the CUDA context "
                  "and NCCL's buffers"
                : "The verdict on memory counts tensors alone",
        "docs/decisions/0055-fits-on-the-device.md"},
       {"A model of PyTorch's caching allocator hands out memory on one rank of each kind (stage, "
        "shards, place on its node), without expandable segments, in one pool for all streams",
        "c10/cuda/CUDACachingAllocator.cpp; docs/decisions/0033-caching-allocator.md"},
       {fmt::format("The CUDA context holds {} bytes of device memory", context.bytes),
        context.source},
       {"Gradients are stored, accumulated and reduced in training.grad_reduce_dtype; 16-bit "
        "training keeps fp32 master weights, and optimizer state in training.optimizer_state_dtype",
        "Micikevicius et al. 2018"}});
  return assumptions;
}

// The assumptions of runs that communicate.
void add_nccl_buffers(const Scenario& scenario, Assumptions& assumptions) {
  if (scenario.system.ranks == 1) return;
  assumptions.push_back(
      {fmt::format(
           "NCCL holds {} bytes of device memory to receive and {} to send, per channel and "
           "connection; a ring is one connection each way, trees and NVLS are not counted",
           kNcclReceiveBytes.bytes, kNcclSendBytes.bytes),
       fmt::format("{}; {}", kNcclReceiveBytes.source, kNcclSendBytes.source)});
  assumptions.push_back(
      {fmt::format("Of NCCL's channels, a ring has {} on one node and {} across nodes, a peer {} "
                   "and {}, whatever the machine",
                   kNcclRingChannels.near, kNcclRingChannels.far, kNcclPeerChannels.near,
                   kNcclPeerChannels.far),
       fmt::format("{}; {}", kNcclRingChannels.source, kNcclPeerChannels.source)});
}

// "2 x 13, 6 x 12".
std::string stage_words(const std::vector<std::int64_t>& layers) {
  std::string text;
  for (std::size_t first = 0, next = 0; first < layers.size(); first = next) {
    while (next < layers.size() && layers[next] == layers[first]) ++next;
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", next - first, layers[first]);
  }
  return text;
}

void add_model_parallel(const Scenario& scenario, Assumptions& assumptions) {
  const ParallelismSpec& parallelism = scenario.parallelism;
  if (parallelism.pp > 1) {
    assumptions.push_back(
        {"The embedding is part of the first stage, the head and the loss of the last; stages x "
         "layers, in order: " +
             stage_words(parallelism.stage_layers),
         "parallelism.stage_layers, as Megatron-LM counts; "
         "docs/decisions/0021-layers-of-stages.md"});
    assumptions.push_back(
        {"Each direction between two stages has a stream of its own; a receive is posted one "
         "action ahead",
         "modelling choice; docs/decisions/0014-pipeline-schedules.md"});
  }
  if (has_blocks(scenario)) {
    assumptions.push_back(
        takes_turns(scenario)
            ? Assumption{"A forward and a backward that overlap take turns where either would wait "
                         "for tokens; all else of them runs one after the other",
                         "modelling choice; docs/decisions/0080-blocks-take-turns.md"}
            : Assumption{
                  "A forward and a backward that overlap take as long as one after the other",
                  "modelling choice; docs/decisions/0027-v-placement.md"});
  }
  if (parallelism.delay_weight_gradients && takes_turns(scenario)) {
    assumptions.push_back(
        {"A block's backward holds back the gradients of its weights, but not of norms, until it "
         "waits for tokens or ends; a backward of its own holds none back",
         "parallelism.delay_weight_gradients; docs/decisions/0080-blocks-take-turns.md"});
  }
  if (scenario.own_schedule != nullptr) {
    assumptions.push_back({"The order of the pipeline's work is that of " +
                               scenario.parallelism.schedule_file +
                               ", with as many sends in flight as that needs",
                           "parallelism.schedule_file; docs/decisions/0027-v-placement.md"});
  }
  if (parallelism.overlaps_tensor_parallel()) {
    assumptions.push_back(
        {"Token shards go round the tensor-parallel ranks as messages between two, "
         "beside which nothing is slower. Queries' product, or the gate's, hides those "
         "ahead of a region; latent attention and recurrences hide none of theirs",
         "as user buffers with ring exchange do; "
         "docs/decisions/0083-products-under-token-rings.md"});
  }
  if (parallelism.tp > 1 && scenario.model.family != ModelFamily::mlp) {
    assumptions.push_back({"Vocabularies are filled up to equal parts for tensor-parallel ranks",
                           "as Megatron-LM does, without its further rounding to 128"});
  }
}

void add_context_parallel(const Scenario& scenario, Assumptions& assumptions) {
  const ParallelismSpec& parallelism = scenario.parallelism;
  if (parallelism.cp == 1) return;
  assumptions.push_back(
      {"Each context-parallel rank has two runs of every sample, one from either half, so that all "
       "have the same work under the causal mask",
       "as Megatron-LM and Llama 3 do; docs/decisions/0028-context-parallelism.md"});
  if (context_attention_row(parallelism.cp_attention).passes_keys_around) {
    assumptions.push_back(
        {"A block of keys and values is sent on while it is computed with; merging the results of "
         "blocks is a kernel of its own, in fp32 where activations have 16 bits",
         "modelling choice; docs/decisions/0028-context-parallelism.md"});
  } else {
    assumptions.push_back({"Attention waits for what it gathers or exchanges: nothing hides it",
                           "modelling choice; Megatron-LM overlaps a part"});
  }
}

std::string routing_words(const ModelSpec& model) {
  const RoutingRow& routing = routing_row(model.moe_routing);
  std::string words(routing.shares);
  if (routing.reads_skew) words += fmt::format(" with exponent {}", model.moe_skew);
  if (routing.reads_skew && routing.moves_on) {
    words += ", and move on by one expert from layer to layer";
  }
  if (!routing.reads_popularity) return words;
  RollingHash hash;
  for (const std::vector<double>& weights : model.moe_popularity) {
    for (const double weight : weights) hash.add(std::bit_cast<std::uint64_t>(weight));
  }
  return words + fmt::format(" {} ({:016x})", model.moe_popularity_file, hash.value());
}

void add_experts(const Experiment& experiment, bool is_replay, Assumptions& assumptions) {
  const Scenario& scenario = experiment.scenario();
  const ModelSpec& model = scenario.model;
  if (model.num_experts == 0) return;
  const char* of_experts =
      "Experts are not cut by tensor parallelism; their matrix products are one grouped operation ";
  assumptions.push_back(
      prices_shapes(experiment)
          ? Assumption{std::string(of_experts) + "in which each has the mean number of rows",
                       "modelling choice: a price must not depend on data"}
          : Assumption{std::string(of_experts) +
                           "of all rows that arrived, at the rate of one large product",
                       "modelling choice; small groups reach less"});
  if (!routing_row(model.moe_routing).is_learned()) {
    assumptions.push_back(
        {"Routing is declared, the same for every sequence: " + routing_words(model),
         "model.moe_routing; docs/decisions/0029-expert-parallelism.md"});
  } else if (scenario.execution.tensors == TensorMode::meta && !is_replay) {
    assumptions.push_back(
        {"Learned routing sends every expert the same number of tokens; a remainder goes to "
         "experts "
         "at equal distances, which move on from rank to rank and layer to layer",
         "modelling choice: what a load-balancing loss aims at"});
  }
  const Software* software = experiment.software();
  if (software != nullptr && !software->memory.keeps_expert_outputs) {
    assumptions.push_back(
        {"Weights of experts multiply what their last product reads, travel with the tokens, and "
         "need no outputs of experts in backward",
         software->source});
  }
  if (experiment.mesh().dispatch_nodes > 0) {
    assumptions.push_back(
        {"Kernels that send tokens once to each node read them where they lie, and add up results "
         "as they come; rows under way have memory, fixed buffers of a library have none",
         "modelling choice, as in DeepEP; docs/decisions/0079-dispatch-by-node.md"});
  }
  if (experiment.mesh().dispatch_nodes > 1) {
    assumptions.push_back(
        {"Copies of tokens are passed on inside a node when all have crossed between nodes, and "
         "are added up there before any goes back",
         "modelling choice: DeepEP does both at once, so a dispatch takes longer here"});
  }
  if (model.moe_capacity_factor > 0.0) {
    assumptions.push_back(
        {"Rows that only fill an expert's capacity up are sent, counted and computed like others",
         "modelling choice, as in GShard; Lepikhin et al. 2020"});
  }
}

void add_data_parallel(const Scenario& scenario, Assumptions& assumptions) {
  const ParallelismSpec& parallelism = scenario.parallelism;
  if (parallelism.trains_apart()) {
    assumptions.push_back(
        {fmt::format("Replicas train apart and are averaged after every {} updates; optimizer "
                     "state stays a replica's own, as do norms and clipping. Bytes are means over "
                     "all steps; the time is that of the last step, which {}",
                     parallelism.sync_period,
                     scenario.execution.steps % parallelism.sync_period == 0 ? "averages"
                                                                             : "does not average"),
         parallelism.data_parallel == DataParallelKind::diloco
             ? "Douillard et al. 2023; docs/decisions/0030-other-data-parallelism.md"
             : "Stich 2018; docs/decisions/0030-other-data-parallelism.md"});
  }
  if (parallelism.data_parallel == DataParallelKind::async_sgd) {
    assumptions.push_back(
        {fmt::format("Every gradient is applied {} updates late, on all ranks alike; those of the "
                     "last steps are waited for and not applied",
                     parallelism.max_staleness),
         "modelling choice: the bounded-staleness worst case, made deterministic; "
         "docs/decisions/0030-other-data-parallelism.md"});
  }
  if (parallelism.is_elastic()) {
    assumptions.push_back(
        {"To leave and to join costs the time in which all ranks form the new group, and a "
         "broadcast of weights and optimizer state to all members if somebody joins; finding out "
         "that somebody has left costs nothing",
         "modelling choice; docs/decisions/0030-other-data-parallelism.md"});
  }
  if (parallelism.compresses()) {
    const CompressorRow& compressor = *parallelism.compression.compressor;
    assumptions.push_back({std::string(compressor.assumption),
                           fmt::format("{}; docs/decisions/0030-other-data-parallelism.md",
                                       compressor.assumption_source)});
  }
}

Assumption dynamic_scale(const LossScaling& rule) {
  std::string text =
      fmt::format("The loss scale doubles, or halves down to {}", rule.minimum_scale);
  if (rule.hysteresis > 1) {
    text += fmt::format(
        "; overflow number {} since it last grew is the first that halves it, and every one after "
        "it does",
        rule.hysteresis);
  }
  // Chosen below the usual minimum, the first scale is the minimum.
  const bool is_own = rule.minimum_scale < LossScaling().minimum_scale;
  return {text, std::string("defaults of torch.amp.GradScaler; the minimum is ") +
                    (is_own ? "training.loss_scale, below Megatron-LM's" : "Megatron-LM's")};
}

void add_loss_scaling(const Experiment& experiment, bool is_replay, Assumptions& assumptions) {
  const Scenario& scenario = experiment.scenario();
  const TrainingSpec& training = scenario.training;
  if (training.loss_scaling == LossScaling::Mode::none) {
    if (!has_narrow_gradients(training)) return;
    assumptions.push_back(
        {"fp16 gradients are neither scaled nor checked for overflow: no step is skipped",
         "modelling choice"});
    return;
  }
  assumptions.push_back(
      {"Reduced gradients are read once more, to find overflows; the optimizer's own pass unscales "
       "them. A skipped step ends there: no norm, no update, no gather",
       "modelling choice; Megatron-LM's search also writes the gradients, unscaled"});
  if (training.loss_scaling == LossScaling::Mode::dynamic) {
    assumptions.push_back(dynamic_scale(experiment.options().training.loss_scaling));
  }
  if (scenario.execution.tensors == TensorMode::meta && !is_replay) {
    assumptions.push_back(
        {"No step is skipped for an overflow",
         "modelling choice: the scale is found in the first steps of a training"});
  }
}

// Numbers of a preset that this run does not read.
bool is_unused(const std::string& field, const Experiment& experiment) {
  const Scenario& scenario = experiment.scenario();
  if (field == "system.device.host_bandwidth_gb_per_s")
    return !scenario.parallelism.uses_host_memory();
  if (field == "system.device.power_w") {
    return scenario.system.device.power_limit_w.peek() == 0.0;
  }
  if (field == "system.pcie_gb_per_s") return scenario.system.nodes == 1;
  if (field == "system.device.matmul_efficiency") return prices_shapes(experiment);
  if (field == "system.intra_node.pair_gb_per_s") {
    return scenario.system.network.is_nccl() || scenario.system.pair_gb_per_s.peek() == 0;
  }
  const bool is_for_nccl = field == "system.cpu_vendor" || field == "system.nics_per_node" ||
                           field == "system.nodes_per_pod" || field == "system.oversubscription";
  // NCCL's model has latencies of its own.
  const bool is_latency =
      field == "system.intra_node.latency_us" || field == "system.inter_node.latency_us";
  return scenario.system.network.is_nccl() ? is_latency : is_for_nccl;
}

void add_sources(const Experiment& experiment, Assumptions& assumptions) {
  for (const NumberSource& number : experiment.scenario().sources) {
    if (is_unused(number.field, experiment)) continue;
    assumptions.push_back({number.field, number.source});
  }
}

}  // namespace

void append_assumptions(Assumptions& assumptions, const Assumptions& more) {
  assumptions.insert(assumptions.end(), more.begin(), more.end());
}

Assumptions assumptions_of(const Experiment& experiment, const Assumptions* replayed) {
  ++derivations().assumptions;
  const ReadLog::Scope decides_nothing(nullptr);
  const Scenario& scenario = experiment.scenario();
  const bool is_replay = replayed != nullptr;
  Assumptions assumptions = general(experiment);
  add_nccl_buffers(scenario, assumptions);
  add_model_parallel(scenario, assumptions);
  add_context_parallel(scenario, assumptions);
  add_experts(experiment, is_replay, assumptions);
  append_assumptions(assumptions, savings_of_memory(scenario));
  add_data_parallel(scenario, assumptions);
  add_loss_scaling(experiment, is_replay, assumptions);
  if (is_replay) append_assumptions(assumptions, *replayed);
  append_assumptions(assumptions, fault_assumptions(scenario.faults));
  append_assumptions(assumptions, constants_of_communication(experiment.cluster()));
  add_sources(experiment, assumptions);
  if (std::optional<Assumption> note = fields_of_values(scenario)) {
    assumptions.push_back(std::move(*note));
  }
  return assumptions;
}

}  // namespace shardsim
