#include "sim/run/metrics.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "strategies/model/expert_layer.hpp"
#include "strategies/named_groups.hpp"

#include "reports/units.hpp"
#include "sim/run/whole_training.hpp"

namespace shardsim {

namespace {

// Setup sends nothing, and every step sends the same. Exceptions are steps that were skipped, end a
// period, have nothing to apply yet or have other members, and learned routing of tokens: then the
// metric is the mean. So it is for a program that the oracle found wrong: a rank that keeps old
// weights gathers them less often.
MetricValue per_step(std::int64_t total, const Experiment& experiment, const RunRecord& record,
                     const Verification* oracle) {
  const Scenario& scenario = experiment.scenario();
  if (total % scenario.execution.steps != 0) {
    const ParallelismSpec& parallelism = scenario.parallelism;
    const bool learned =
        scenario.model.num_experts > 0 && routing_row(scenario.model.moe_routing).is_learned();
    const bool is_wrong = oracle != nullptr && !oracle->passed();
    if (is_wrong || record.skipped_steps() > 0 || learned || parallelism.changes_algorithm() ||
        parallelism.is_elastic()) {
      return static_cast<double>(total) / static_cast<double>(scenario.execution.steps);
    }
    throw Error(ExitCode::internal, "E7003",
                fmt::format("{} bytes or calls do not divide into {} equal steps", total,
                            scenario.execution.steps),
                "please report this scenario");
  }
  return total / scenario.execution.steps;
}

// Dropped pairs of a token and an expert, in all steps; a plan counts them for its assumed routing.
std::int64_t dropped_tokens(const World& world) {
  const std::span<const std::int64_t> dropped = world.tallied(kDroppedTokens);
  return dropped.empty() ? 0 : dropped.front();
}

void add_time(std::vector<Metric>& metrics, const Experiment& experiment, const World& world,
              const RunRecord& record) {
  const Scenario& scenario = experiment.scenario();
  const Model& model = experiment.plan().whole();
  const int rank = record.last_rank();
  const RankMoment& begin = record.last_step_begin(rank);
  const RankMoment& end = record.last_step_end(rank);
  const double step_s = (end.clock - begin.clock).seconds();
  const auto samples = static_cast<double>(scenario.training.global_batch_size);
  const auto ranks = static_cast<double>(scenario.system.ranks);
  const double tokens = samples * static_cast<double>(model.positions_per_sample());
  // Tokens that a capacity drops are not work of the model.
  const double dropped =
      static_cast<double>(dropped_tokens(world)) / static_cast<double>(scenario.execution.steps);
  const double flops = (samples * static_cast<double>(model.model_flops_per_sample()) -
                        dropped * static_cast<double>(model.model_flops_per_expert_token())) /
                       ranks;
  const double peak = world.cluster().device.peak(scenario.training.product_dtype());
  const Time exposed = end.split.exposed_comm - begin.split.exposed_comm;
  const Time busy = end.comm_busy - begin.comm_busy;
  const auto rate = [&](double amount) { return step_s > 0.0 ? amount / step_s : 0.0; };
  metrics.push_back({metric::kStepTimeS.name, step_s});
  metrics.push_back({metric::kTokensPerS.name, rate(tokens)});
  metrics.push_back({metric::kTokensPerSPerGpu.name, rate(tokens / ranks)});
  metrics.push_back({metric::kModelTflopsPerGpu.name, rate(flops) / 1e12});
  metrics.push_back({metric::kMfu.name, peak > 0.0 ? rate(flops) / peak : 0.0});
  // The executed operations: with attention's scores, which a fused backward computes again, and
  // all requested recomputation.
  double executed = 0.0;
  for (int each = 0; each < world.num_ranks(); ++each) executed += world.executed_flops(each);
  executed /= ranks * static_cast<double>(scenario.execution.steps);
  metrics.push_back({metric::kHfu.name, peak > 0.0 ? rate(executed) / peak : 0.0});
  metrics.push_back(
      {metric::kTimeComputeS.name, (end.split.compute - begin.split.compute).seconds()});
  metrics.push_back({metric::kTimeExposedCommS.name, exposed.seconds()});
  metrics.push_back({metric::kTimeBubbleS.name, (end.split.bubble - begin.split.bubble).seconds()});
  metrics.push_back({metric::kTimeHostS.name, (end.split.host - begin.split.host).seconds()});
  metrics.push_back({metric::kTimeHiddenCommS.name, max(busy - exposed, Time()).seconds()});
}

// Idle time of a pipeline in both meanings (docs/decisions/0027), each for the rank with most.
void add_pipeline_idle(std::vector<Metric>& metrics, const World& world, const RunRecord& record) {
  Time first = record.pipeline_span(0).begin;
  Time last;
  for (const int rank : world.running()) {
    first = min(first, record.pipeline_span(rank).begin);
    last = max(last, record.pipeline_span(rank).end);
  }
  Time idle;
  Time idle_in_span;
  for (const int rank : world.running()) {
    const PipelineSpan& span = record.pipeline_span(rank);
    idle = max(idle, last - first - span.busy);
    idle_in_span = max(idle_in_span, span.end - span.begin - span.busy);
  }
  metrics.push_back({metric::kTimePipelineIdleSMax.name, idle.seconds()});
  metrics.push_back({metric::kTimePipelineIdleInSpanSMax.name, idle_in_span.seconds()});
}

void add_memory(std::vector<Metric>& metrics, const Experiment& experiment, const World& world,
                const DeviceMemory& memory) {
  std::int64_t peak = 0;
  std::int64_t host_peak = 0;
  MemoryUse most{};
  for (const int rank : world.running()) {
    const MemoryLedger& ledger = world.ledger(rank);
    peak = std::max(peak, ledger.peak());
    host_peak = std::max(host_peak, world.host_ledger(rank).peak());
    for (std::size_t i = 0; i < most.size(); ++i) {
      most.at(i) = std::max(most.at(i), ledger.at_peak().at(i));
    }
  }
  metrics.push_back({metric::kMemoryPeakBytesMax.name, peak});
  for (std::size_t i = 0; i < most.size(); ++i) {
    metrics.push_back({kMemoryMetrics.at(i)->name, most.at(i)});
  }
  if (experiment.scenario().parallelism.uses_host_memory()) {
    metrics.push_back({metric::kMemoryHostBytesMax.name, host_peak});
  }
  memory.add_metrics(metrics);
}

void add_traffic(std::vector<Metric>& metrics, const Experiment& experiment, const World& world,
                 const RunRecord& record, const Verification* oracle) {
  const auto add = [&](const MetricRow& row, std::int64_t sum) {
    metrics.push_back({row.name, per_step(sum, experiment, record, oracle)});
  };
  const TrafficCounters total = world.total_traffic();
  const std::vector<std::int64_t> by_rank = world.sent_by_rank();
  add(metric::kCommBytesSentTotal, total.payload_sent);
  add(metric::kCommBytesSentMaxRank, *std::ranges::max_element(by_rank));
  for (const auto& [axis, row] : kAxisMetrics) {
    std::int64_t sent = 0;
    for (const auto& [name, counters] : world.traffic()) {
      if (axis_of(name) == axis) sent += counters.payload_sent;
    }
    add(row, sent);
  }
  add(metric::kCommBytesSentPadding, total.padding_sent);
  add(metric::kCommBytesSentScalars, total.scalar_sent);
  add(metric::kCommCallsTotal, total.calls);
}

// For the most uneven layer: tokens of the busiest expert divided by their mean.
double load_imbalance(std::span<const std::int64_t> loads, std::int64_t num_experts) {
  double worst = 1.0;
  for (std::size_t first = 0; first < loads.size();
       first += static_cast<std::size_t>(num_experts)) {
    const std::span<const std::int64_t> layer =
        loads.subspan(first, static_cast<std::size_t>(num_experts));
    double sum = 0.0;
    for (const std::int64_t load : layer) sum += static_cast<double>(load);
    if (sum == 0.0) continue;
    const auto most = static_cast<double>(*std::ranges::max_element(layer));
    worst = std::max(worst, most * static_cast<double>(num_experts) / sum);
  }
  return worst;
}

void add_experts(std::vector<Metric>& metrics, const Experiment& experiment, const World& world,
                 const RunRecord& record, const Verification* oracle) {
  const ModelSpec& model = experiment.scenario().model;
  if (model.num_experts == 0) return;
  metrics.push_back({metric::kMoeLoadImbalance.name,
                     load_imbalance(world.tallied(kExpertLoad), model.num_experts)});
  if (model.moe_capacity_factor <= 0.0) return;
  // The assumed routing of a plan does not show how many tokens learned routing drops.
  if (routing_row(model.moe_routing).is_learned() && !record.knows_routing()) return;
  metrics.push_back({metric::kMoeDroppedTokens.name,
                     per_step(dropped_tokens(world), experiment, record, oracle)});
}

// --- Checks ------------------------------------------------------------------------------------

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

// Below it, a training does not end in any useful time.
constexpr double kHopelessGoodput = 0.01;

}  // namespace

std::string_view axis_of(const std::string& communicator) {
  for (const NamedGroup* const group : kNamedGroups) {
    if (group->name == communicator) return group->axis;
  }
  throw Error(ExitCode::internal, "E7004",
              "communicator " + communicator + " belongs to no axis of the result");
}

ParameterCounts parameter_counts(const Experiment& experiment) {
  const Model& model = experiment.plan().whole();
  const ModelSpec& spec = experiment.scenario().model;
  ParameterCounts counts;
  const auto is_ahead = [](const std::string& name) { return name.starts_with("mtp."); };
  const auto add = [&](const std::string& name, std::int64_t elements) {
    (is_ahead(name) ? counts.ahead : counts.all) += elements;
  };
  for (const ParameterSpec& parameter : model.parameters()) {
    add(parameter.name, parameter.whole_shape().numel());
  }
  for (const RouterBiasSpec& bias : model.router_biases()) add(bias.name, bias.num_experts);
  counts.active = counts.all;
  for (const ParameterSpec& parameter : model.parameters()) {
    if (!parameter.expert || is_ahead(parameter.name)) continue;
    const std::int64_t of_one = parameter.whole_shape().numel() / spec.num_experts;
    counts.active -= of_one * (spec.num_experts - spec.num_experts_per_token);
  }
  return counts;
}

MemoryUse memory_of_the_fullest(const World& world) {
  std::int64_t most = -1;
  MemoryUse use{};
  for (const int rank : world.running()) {
    const MemoryLedger& ledger = world.ledger(rank);
    if (ledger.peak() <= most) continue;
    most = ledger.peak();
    use = ledger.at_peak();
  }
  return use;
}

std::vector<Metric> metrics_of(const Experiment& experiment, const World& world,
                               const DeviceMemory& memory, const RunRecord& record,
                               const Verification* oracle) {
  const Scenario& scenario = experiment.scenario();
  std::vector<Metric> metrics;
  add_time(metrics, experiment, world, record);
  if (scenario.parallelism.pp > 1) add_pipeline_idle(metrics, world, record);
  add_memory(metrics, experiment, world, memory);
  add_traffic(metrics, experiment, world, record, oracle);
  add_experts(metrics, experiment, world, record, oracle);
  if (scenario.training.loss_scaling != LossScaling::Mode::none) {
    metrics.push_back({metric::kLossScalingSkippedSteps.name, record.skipped_steps()});
    metrics.push_back({metric::kLossScalingScale.name, record.loss_scale()});
  }
  add_goodput(experiment, metrics);
  const ParameterCounts counts = parameter_counts(experiment);
  metrics.push_back({metric::kModelParameters.name, counts.all});
  metrics.push_back({metric::kModelActiveParameters.name, counts.active});
  if (counts.ahead > 0) metrics.push_back({metric::kMtpParameters.name, counts.ahead});
  metrics.push_back({metric::kRanks.name, scenario.system.ranks});
  metrics.push_back({metric::kTraceHash.name, fmt::format("{:016x}", world.trace_hash())});
  if (oracle != nullptr) {
    const Oracle::Errors errors = oracle->errors();
    metrics.push_back({metric::kOracleMaxRelErrorGrads.name, errors.gradients});
    metrics.push_back({metric::kOracleMaxRelErrorParams.name, errors.parameters});
    metrics.push_back({metric::kOracleMaxRelErrorOptimizerState.name, errors.optimizer_state});
    metrics.push_back({metric::kOracleMaxRelErrorLoss.name, errors.loss});
    if (errors.norm) metrics.push_back({metric::kOracleMaxRelErrorNorm.name, *errors.norm});
    metrics.push_back({metric::kOraclePassed.name, oracle->passed()});
  }
  return metrics;
}

// --- Checks ------------------------------------------------------------------------------------

Check conservation_check(const World& world) {
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
  world.for_equal_links([&](const EqualLinks& links) {
    num_links += links.size();
    if (links.counts.sent != links.counts.received && !leak) leak = links.first();
  });
  if (leak) {
    return {
        "conservation", false,
        fmt::format("group {}: rank {} sent {} bytes to rank {}, which received {}", leak->group,
                    leak->from_rank, leak->counts.sent, leak->to_rank, leak->counts.received)};
  }
  const TrafficCounters total = world.total_traffic();
  return {"conservation", true,
          fmt::format(
              "{} bytes sent and received in {} messages; the two ends of each of {} links agree",
              total.payload_sent + total.scalar_sent, total.messages, num_links)};
}

Check oracle_check(const Verification& oracle) {
  return {"oracle", oracle.passed(), oracle.detail()};
}

std::vector<ExpectationResult> judge(const std::vector<Expectation>& expectations,
                                     const Result& result) {
  std::vector<ExpectationResult> judged;
  for (const Expectation& expectation : expectations) {
    const std::optional<double> actual = result.number(expectation.metric);
    // A metric that this run does not have (the oracle's, in a plan) fails: the run did not show
    // that it holds.
    judged.push_back({.metric = expectation.metric,
                      .op = to_string(expectation.op),
                      .expected = expectation.value,
                      .actual = actual.value_or(std::numeric_limits<double>::quiet_NaN()),
                      .passed = actual && holds(*actual, expectation.op, expectation.value),
                      .line = expectation.line,
                      .column = expectation.column});
  }
  return judged;
}

std::vector<std::string> fault_warnings(const FaultSpec& faults, const Result& result) {
  std::vector<std::string> warnings;
  const double step_s = result.number(metric::kStepTimeS).value_or(0.0);
  double period_s = 0.0;
  for (const auto& link : faults.flapping_links) period_s = std::max(period_s, link.period_s);
  if (step_s < period_s) {
    warnings.push_back(
        fmt::format("links flap every {} and a step takes {}: how much of an outage the step that "
                    "is reported meets depends on faults.flapping_links[].phase_s, and so do days "
                    "and costs; plan several phases before drawing conclusions",
                    format_seconds(period_s), format_seconds(step_s)));
  }
  const auto goodput = result.number(metric::kGoodputFraction);
  if (!goodput) return warnings;
  if (*goodput < kHopelessGoodput) {
    warnings.push_back(fmt::format(
        "failures come faster than work can be kept: the goodput is {:.2g} %, and the training "
        "practically never ends; see faults.gpu_mtbf_hours, checkpoint_write_s and restart_s",
        100.0 * *goodput));
  }
  const double interval_s = result.number(metric::kGoodputCheckpointIntervalS).value_or(step_s);
  if (interval_s < step_s) {
    warnings.push_back(
        fmt::format("faults.checkpoint_interval_s is {}, less than a step of {}: checkpoints are "
                    "written between steps, so they cannot be more frequent than that",
                    format_seconds(interval_s), format_seconds(step_s)));
  }
  return warnings;
}

}  // namespace shardsim
