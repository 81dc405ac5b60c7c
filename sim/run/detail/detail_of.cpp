#include "sim/run/detail/detail_of.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "strategies/gradient_sync/compressors.hpp"

#include "sim/experiment/assumptions.hpp"
#include "sim/experiment/model_words.hpp"
#include "sim/run/whole_training.hpp"

namespace shardsim {

namespace {

// --- Memory over time --------------------------------------------------------------------------

// For all curves of a page together: with very many stages each gets fewer points.
constexpr std::size_t kMostPoints = 32'000;
constexpr std::size_t kFewestPoints = 100;

// Memory over time of `ranks`, one per stage. Moments count from `origin`. Adds a note to `notes`
// if curves were thinned.
std::vector<MemoryCurve> memory_curves(const WatchedRun& watched, const std::vector<int>& ranks,
                                       Time origin, std::vector<std::string>& notes) {
  const std::size_t most = std::clamp(kMostPoints / ranks.size(), kFewestPoints, kMaxMemoryPoints);
  bool has_thinned = false;
  std::vector<MemoryCurve> curves;
  for (std::size_t stage = 0; stage < ranks.size(); ++stage) {
    RankRecorder& recorder = watched.of(ranks[stage]);
    MemoryCurve curve{
        .stage = static_cast<std::int64_t>(stage), .rank = ranks[stage], .points = {}};
    std::vector<TimedUse> points = recorder.take_memory();
    has_thinned = has_thinned || recorder.has_thinned_memory() || points.size() > most;
    for (const TimedUse& point : CurveThinner::thinned(std::move(points), most)) {
      curve.points.push_back({(point.time - origin).seconds(), point.bytes});
    }
    curves.push_back(std::move(curve));
  }
  if (has_thinned) {
    notes.emplace_back(
        "Memory over time is thinned: of neighbouring moments those with more in use are shown.");
  }
  return curves;
}

// --- The schedule ------------------------------------------------------------------------------

struct NamedRow {
  std::int64_t stage;
  int rank;
  std::string track;
  BarRow* row;
};

std::vector<NamedRow> rows_of(const WatchedRun& watched, const std::vector<StageTime>& stages) {
  std::vector<NamedRow> rows;
  for (const StageTime& stage : stages) {
    RankRecorder& recorder = watched.of(stage.rank);
    rows.push_back({stage.stage, stage.rank, "compute", &recorder.compute()});
    std::map<std::string, int> seen;
    for (auto& [stream, row] : recorder.streams()) {
      const int number = ++seen[stream.first];
      const std::string suffix = number == 1 ? "" : fmt::format(" {}", number);
      rows.push_back({stage.stage, stage.rank, stream.first + suffix, &row});
    }
  }
  return rows;
}

std::size_t count_bars(const std::vector<NamedRow>& rows) {
  std::size_t bars = 0;
  for (const NamedRow& row : rows) bars += row.row->bars().size();
  return bars;
}

Time coarsest(const std::vector<NamedRow>& rows) {
  Time blur;
  for (const NamedRow& row : rows) blur = max(blur, row.row->blur());
  return blur;
}

class Names {
 public:
  std::uint32_t index_of_name(std::string_view name) {
    const auto next = static_cast<std::uint32_t>(names_.size());
    const auto [place, is_new] = places_.try_emplace(name, next);
    if (is_new) names_.emplace_back(name);
    return place->second;
  }
  std::vector<std::string> take() { return std::move(names_); }

 private:
  std::map<std::string_view, std::uint32_t> places_;
  std::vector<std::string> names_;
};

GanttRow drawn(const NamedRow& row, Time origin, Names& names) {
  GanttRow drawn{.stage = row.stage, .rank = row.rank, .track = row.track, .bars = {}};
  for (const TimedBar& bar : row.row->bars()) {
    drawn.bars.push_back({.name = names.index_of_name(bar.name),
                          .chunk = bar.chunk,
                          .microbatch = bar.microbatch,
                          .begin_s = (bar.begin - origin).seconds(),
                          .end_s = (bar.end - origin).seconds()});
  }
  return drawn;
}

// The last step of the rank that `stages` names for each stage. Moments count from `origin`. Adds
// the limit of detail to `notes`.
ScheduleChart schedule_chart(const WatchedRun& watched, const std::vector<StageTime>& stages,
                             Time origin, std::vector<std::string>& notes) {
  const std::vector<NamedRow> rows = rows_of(watched, stages);
  while (count_bars(rows) > kMaxGanttBars) {
    const Time blur = BarRow::coarser(coarsest(rows));
    for (const NamedRow& row : rows) row.row->coarsen(blur);
  }
  if (const Time blur = coarsest(rows); blur > Time()) {
    constexpr double kMicro = 1e6;
    notes.push_back(
        fmt::format("The schedule is drawn coarsely: gaps, and bars beside others, of up to {:.3g} "
                    "us do not show.",
                    blur.seconds() * kMicro));
  }
  ScheduleChart chart;
  Names names;
  for (const NamedRow& row : rows) chart.rows.push_back(drawn(row, origin, names));
  chart.names = names.take();
  return chart;
}

// --- Notes -------------------------------------------------------------------------------------

void require_same(const WatchedRun& watched, const World& world) {
  if (watched.trace_hash() == world.trace_hash()) return;
  throw Error(ExitCode::internal, "E1391",
              "the run that was watched for the report is not the run that was reported",
              "leave the report out, and please report this scenario");
}

void add_notes(const RunDetail& detail, std::vector<std::string>& notes) {
  if (detail.traffic.ranks_per_cell > 1) {
    notes.push_back(fmt::format("In the traffic matrix {0} x {0} ranks are one cell.",
                                detail.traffic.ranks_per_cell));
  }
  if (detail.traffic.steps > 1) {
    notes.push_back(fmt::format("The traffic matrix is of all {} steps, which are not alike.",
                                detail.traffic.steps));
  }
}

// --- Headline ----------------------------------------------------------------------------------

// "tp 2, pp 4 (1f1b), dp_shard 8, zero 1": axes of one rank are left out, except dp_shard.
std::string layout_of(const ParallelismSpec& parallelism, const ModelSpec& model) {
  std::string words;
  if (parallelism.tp > 1) {
    words += fmt::format("tp {}{}, ", parallelism.tp,
                         parallelism.sequence_parallel ? " (sequence parallel)" : "");
  }
  if (parallelism.pp > 1) {
    const std::string chunks =
        parallelism.vpp > 1 ? fmt::format(" x {} chunks", parallelism.vpp) : "";
    words += fmt::format("pp {}{} ({}), ", parallelism.pp, chunks, parallelism.schedule);
  } else if (parallelism.schedule != "none") {
    words += parallelism.schedule + ", ";
  }
  if (parallelism.cp > 1) {
    words += fmt::format("cp {} ({}), ", parallelism.cp, to_string(parallelism.cp_attention));
  }
  if (model.num_experts > 0) {
    const bool per_node =
        parallelism.ep > 1 && parallelism.expert_dispatch == ExpertDispatch::per_node;
    const bool is_narrow = per_node && parallelism.expert_payload != ExpertPayload::training;
    words += fmt::format(
        "ep {}{} ({} experts, top {}, {} routing{}{}), ", parallelism.ep,
        parallelism.etp > 1 ? fmt::format(" x etp {}", parallelism.etp) : "", model.num_experts,
        model.num_experts_per_token, to_string(model.moe_routing),
        per_node ? ", once per node" : "",
        is_narrow ? fmt::format(" in {}", to_string(parallelism.expert_payload)) : std::string());
  }
  if (parallelism.dp_replicate > 1) {
    words += fmt::format("dp_replicate {}, ", parallelism.dp_replicate);
  }
  words += fmt::format("dp_shard {}, zero {}", parallelism.dp_shard, parallelism.zero_stage);
  if (parallelism.data_parallel != DataParallelKind::synchronous) {
    words += fmt::format(", {}", to_string(parallelism.data_parallel));
  }
  if (parallelism.compresses()) {
    words += fmt::format(", {} gradients", parallelism.compression.compressor->name);
  }
  return words;
}

}  // namespace

RunDetail detail_of(const EndedRun& run) {
  const ParallelPlan& plan = run.experiment.plan();
  const MeshShape& mesh = plan.options().mesh;
  const World& world = run.world;
  const std::int64_t steps = plan.options().training.steps;
  RunDetail detail;
  detail.stages = stage_times(world, run.record, mesh);
  detail.traffic = traffic_matrix(world, steps);
  detail.traffic_by_axis = traffic_by_axis(world, steps);
  detail.links =
      link_use(world, run.experiment, run.result.number(metric::kStepTimeS).value_or(0.0));
  detail.cost = cost_of(run.experiment, run.result);
  const std::vector<int> fullest = fullest_ranks(world, mesh);
  const int last = run.record.last_rank();
  std::set<int> ranks(fullest.begin(), fullest.end());
  for (const StageTime& stage : detail.stages) ranks.insert(stage.rank);
  ranks.insert(last);
  WatchedRun watched(plan, run.hooks, run.options, run.decisions, ranks);
  require_same(watched, world);
  const Time origin = begin_of_last_step(world, run.record);
  detail.axes = axis_table(watched.of(last), run.record, run.result);
  detail.roofline = roofline_of(watched.of(last), run.experiment);
  detail.memory = memory_curves(watched, fullest, origin, detail.notes);
  detail.schedule = schedule_chart(watched, detail.stages, origin, detail.notes);
  add_notes(detail, detail.notes);
  return detail;
}

// --- Headline ----------------------------------------------------------------------------------

TextHeadline headline_of(const Experiment& experiment) {
  const Scenario& scenario = experiment.scenario();
  const ParallelismSpec& parallelism = scenario.parallelism;
  const ModelSpec& model = scenario.model;
  const TrainingSpec& training = scenario.training;
  const std::string faults = faults_in_words(scenario.faults);
  return {.name = scenario.name,
          .model = model.preset.empty() ? to_string(model.family) : model.preset,
          .system = fmt::format("{} x {}{}{}", scenario.system.nodes, scenario.system.name,
                                faults.empty() ? "" : ", ", faults),
          .layout = layout_of(parallelism, model),
          .precision = to_string(training.precision),
          .batch = fmt::format("global batch {} ({} x {} x {} ranks), seq {}, reduce in {}",
                               training.global_batch_size, training.micro_batch_size,
                               training.num_microbatches, parallelism.data_parallel_size(),
                               model.seq_len, to_string(training.grad_reduce_dtype)),
          .ranks = scenario.system.ranks,
          .device_memory_bytes = static_cast<double>(scenario.system.device.memory_bytes),
          .steps = scenario.execution.steps,
          .tokens_total = training.tokens_total,
          .mfu_counts = mfu_convention(model),
          .software = scenario.system.software == "none"
                          ? ""
                          : fmt::format("priced as {}{}", scenario.system.software,
                                        scenario.system.software_is_default ? " (default)" : "")};
}

}  // namespace shardsim
