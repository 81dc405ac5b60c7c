#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "sim/app/metrics.hpp"

namespace shardsim {

Check conservation_check(const FiberWorld& world) {
  for (const auto& [name, counters] : world.traffic()) {
    if (counters.payload_sent != counters.payload_received ||
        counters.scalar_sent != counters.scalar_received ||
        counters.to_next != counters.from_previous) {
      return {"conservation", false,
              fmt::format("group {}: {} bytes sent, {} received; along its rings {} and {}", name,
                          counters.payload_sent + counters.scalar_sent,
                          counters.payload_received + counters.scalar_received, counters.to_next,
                          counters.from_previous)};
    }
  }
  std::int64_t num_links = 0;
  std::optional<LinkTraffic> leak;
  world.for_each_link([&](const LinkTraffic& link) {
    ++num_links;
    if (link.sent != link.received && !leak) leak = link;
  });
  if (leak) {
    return {
        "conservation", false,
        fmt::format("group {}: rank {} sent {} bytes along the ring to rank {}, which received {}",
                    leak->group, leak->from_rank, leak->sent, leak->to_rank, leak->received)};
  }
  const TrafficCounters total = world.total_traffic();
  return {"conservation", true,
          fmt::format("{} bytes sent and received in {} messages; the two ends of each of {} ring "
                      "links agree",
                      total.payload_sent + total.scalar_sent, total.messages, num_links)};
}

Check memory_check(const FiberWorld& world) {
  const int fullest = world.fullest_rank();
  const std::int64_t peak = world.engine().rank(fullest).ledger().peak();
  const std::int64_t capacity = world.options().cluster.device.memory_bytes;
  return {"memory", peak <= capacity,
          fmt::format("rank {} needs {} bytes at its peak, the device has {}", fullest, peak,
                      capacity)};
}

Check oracle_check(const Oracle& oracle) { return {"oracle", oracle.passed(), oracle.detail()}; }

namespace {

bool holds(double actual, CompareOp op, double expected) {
  switch (op) {
    case CompareOp::less:
      return actual < expected;
    case CompareOp::less_equal:
      return actual <= expected;
    case CompareOp::equal:
      return actual == expected;
    case CompareOp::not_equal:
      return actual != expected;
    case CompareOp::greater_equal:
      return actual >= expected;
    case CompareOp::greater:
      return actual > expected;
  }
  return false;
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

}  // namespace

std::vector<ExpectationResult> judge(const std::vector<Expectation>& expectations,
                                     const Result& result) {
  std::vector<ExpectationResult> judged;
  for (const Expectation& expectation : expectations) {
    const std::optional<double> actual = result.number(expectation.metric);
    // A metric that this run does not have (the oracle's, in a plan) fails: it was not shown to
    // hold.
    judged.push_back({.metric = expectation.metric,
                      .op = to_string(expectation.op),
                      .expected = expectation.value,
                      .actual = actual.value_or(0.0),
                      .passed = actual && holds(*actual, expectation.op, expectation.value)});
  }
  return judged;
}

namespace {

void add_loss_scaling(const Scenario& scenario, std::vector<Assumption>& assumptions) {
  const TrainingSpec& training = scenario.training;
  if (training.loss_scaling == LossScalingKind::none) {
    if (training.precision != Precision::fp16) return;
    assumptions.push_back(
        {"fp16 gradients are neither scaled nor checked for overflow: no step is "
         "skipped",
         "modelling choice"});
    return;
  }
  assumptions.push_back(
      {"Reduced gradients are read once more, to find overflows; the optimizer's own pass unscales "
       "them. A skipped step ends there: no norm, no update, no gather",
       "modelling choice; Megatron-LM's search also writes the gradients, unscaled"});
  if (training.loss_scaling == LossScalingKind::dynamic) {
    assumptions.push_back({"The loss scale doubles, or halves down to 1",
                           "defaults of torch.amp.GradScaler; the minimum is Megatron-LM's"});
  }
  if (scenario.execution.tensors == TensorMode::meta) {
    assumptions.push_back(
        {"No step is skipped for an overflow, unless a record is replayed",
         "modelling choice: the scale is found in the first steps of a training"});
  }
}

}  // namespace

std::vector<Assumption> assumptions_of(const Scenario& scenario) {
  std::vector<Assumption> assumptions = {
      {"An operation takes max(flops / achieved peak, bytes / achieved bandwidth) + one launch",
       "Roofline, Williams et al. 2009; one achieved share per device, whatever the shape"},
      {"Matrix products and fused causal attention count half of the score matrix; other "
       "operations "
       "are one kernel each, bound by the bytes they move",
       "modelling choice"},
      {"Communication costs alpha + bytes / beta per step of a ring or tree; operations on "
       "different "
       "communicators do not slow each other or the compute stream",
       "modelling choice"},
      {"Computing does not slow down beside communication: neither takes multiprocessors or memory "
       "bandwidth from the other",
       "modelling choice; favours overlap"},
      {"All operations of one axis run one after the other: all-gathers and reduce-scatters of the "
       "shard axis share one communicator and its stream",
       "as one NCCL communicator does; modelling choice"},
      {"Data loading, token transfer and all work of the host cost nothing", "modelling choice"},
      {"Between nodes a ring uses the network cards of all its members on a node at once",
       "as NCCL's rings do; modelling choice"},
      {"Memory is payload bytes of live tensors; allocator rounding, fragmentation, CUDA context "
       "and "
       "kernel workspaces are not counted",
       "modelling choice"},
      {"Gradients are stored, accumulated and reduced in training.grad_reduce_dtype; 16-bit "
       "training "
       "keeps fp32 master weights and optimizer state",
       "Micikevicius et al. 2018"},
  };
  if (scenario.parallelism.pp > 1) {
    assumptions.push_back(
        {"The embedding is part of the first stage, the head and the loss of the last; stages x "
         "layers, in order: " +
             stage_words(scenario.parallelism.stage_layers),
         "parallelism.stage_layers, as Megatron-LM counts; "
         "docs/decisions/0021-layers-of-stages.md"});
    assumptions.push_back(
        {"Each direction between two stages has a stream of its own; a receive is posted one "
         "action ahead",
         "modelling choice; docs/decisions/0014-pipeline-schedules.md"});
  }
  if (scenario.parallelism.tp > 1 && scenario.model.family != ModelFamily::mlp) {
    assumptions.push_back({"Vocabularies are filled up to equal parts for tensor-parallel ranks",
                           "as Megatron-LM does, without its further rounding to 128"});
  }
  if (scenario.parallelism.offloads()) {
    assumptions.push_back(
        {"What is offloaded visits the device a chunk at a time, for the update, too. Transfers "
         "run on "
         "the compute stream, count as computing, reach the full rate of the link and hide behind "
         "nothing; host memory has no limit",
         "modelling choice; DeepSpeed updates on the host, and hides part of it"});
  }
  if (scenario.training.recompute == "selective") {
    assumptions.push_back(
        {"Selective recomputation is that of norms and activation functions; attention's scores "
         "are computed again in any case, by a fused kernel",
         "modelling choice; in Megatron-LM the word means the attention core"});
  }
  if (scenario.parallelism.zero_stage == 3 && scenario.parallelism.reshard_after_forward) {
    assumptions.push_back({"Every unit is gathered again for backward, the last one, too",
                           "modelling choice; PyTorch may keep the last"});
  }
  add_loss_scaling(scenario, assumptions);
  for (const NumberSource& number : scenario.sources) {
    const bool is_unused =
        number.field == "system.device.host_bandwidth_gb_per_s" && !scenario.parallelism.offloads();
    if (is_unused) continue;
    assumptions.push_back({number.field, number.source});
  }
  return assumptions;
}

}  // namespace shardsim
