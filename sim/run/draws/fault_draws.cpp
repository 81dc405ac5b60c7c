#include "sim/run/draws/fault_draws.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "backends/replay/equal_ranks.hpp"
#include "backends/replay/replay_world.hpp"

#include "sim/run/draws/factor_quantile.hpp"
#include "sim/run/draws/simulated_training.hpp"
#include "sim/run/metrics.hpp"
#include "sim/run/whole_training.hpp"

namespace shardsim {

namespace {

// Draws that are replayed together: enough that what they share costs little, and few enough that
// their clocks stay in the processor's cache.
constexpr std::size_t kLanes = 32;

constexpr double kDefaultDays = 30.0;
// A training that meets so many never ends.
constexpr std::int64_t kMostFailures = 1'000'000;
// A longer training is drawn up to here: its goodput hardly varies.
constexpr double kMostSegments = 1e6;

// The number of the part that a rank belongs to.
int part_of(const std::string& part, const Experiment& experiment, int rank) {
  if (part == "node") return experiment.cluster().node_of(rank);
  if (part == "stage") return experiment.mesh().place_of(rank).pp;
  return rank;
}

// A uniform share in (0, 1).
double inner(double uniform) { return std::max(uniform, 0x1p-60); }

std::optional<FactorTable> table_of(const FactorSpec& factor) {
  if (factor.spread == 0.0) return std::nullopt;
  return FactorTable([&](double share) { return factor_quantile(factor, share); });
}

struct Spread {
  double mean = 0.0;
  double standard_error = 0.0;
};

// Differences from the first value: where all are equal, so is their mean.
Spread spread_of(std::span<const double> values) {
  const auto count = static_cast<double>(values.size());
  const double first = values.front();
  double sum = 0.0;
  for (const double value : values) sum += value - first;
  const double mean = sum / count;
  double squares = 0.0;
  for (const double value : values) squares += (value - first - mean) * (value - first - mean);
  return {first + mean, values.size() < 2 ? 0.0 : std::sqrt(squares / (count - 1.0) / count)};
}

// All work by all time, and its error to first order: the mean of the ratios would lie above.
Spread ratio_of(std::span<const double> parts, std::span<const double> wholes) {
  const double whole = std::accumulate(wholes.begin(), wholes.end(), 0.0);
  const double ratio = std::accumulate(parts.begin(), parts.end(), 0.0) / whole;
  double squares = 0.0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double residual = parts[i] - ratio * wholes[i];
    squares += residual * residual;
  }
  const auto count = static_cast<double>(parts.size());
  return {ratio, count < 2 ? 0.0 : std::sqrt(squares * count / (count - 1.0)) / whole};
}

ReplayOptions world_of(const Experiment& experiment, const RunHooks& hooks) {
  ReplayOptions options;
  const FiberOptions& world = experiment.world();
  options.cluster = world.cluster;
  options.all_reduce_algorithm = world.all_reduce_algorithm;
  options.buffered_sends = world.buffered_sends || hooks.schedule.sends == SendMode::buffered;
  return options;
}

// --- Draws with jitter -------------------------------------------------------------------------

// All ranks differ, so draws are the lanes of one replay.
class JitterDraws {
 public:
  JitterDraws(const Experiment& experiment, const RunHooks& hooks, const RankPrograms& programs)
      : experiment_(experiment),
        hooks_(hooks),
        programs_(programs),
        compute_(table_of(experiment.scenario().faults.draws.compute_jitter)),
        communication_(table_of(experiment.scenario().faults.draws.communication_jitter)) {}

  static constexpr std::size_t kAtOnce = kLanes;
  void replay(std::size_t first, std::span<double> step_s) const {
    LaneOptions options{.lanes = {},
                        .compute = compute_ ? &*compute_ : nullptr,
                        .communication = communication_ ? &*communication_ : nullptr,
                        .step = experiment_.scenario().execution.steps - 1};
    for (std::size_t lane = 0; lane < step_s.size(); ++lane) {
      options.lanes.push_back(lane_of_draw(experiment_, static_cast<std::int64_t>(first + lane)));
    }
    ReplayLanes lanes(std::move(options));
    ReplayOptions world = world_of(experiment_, hooks_);
    world.lanes = &lanes;
    ReplayWorld(std::move(world), programs_).run();
    const std::vector<Time> times = lanes.step_times();
    for (std::size_t lane = 0; lane < times.size(); ++lane) step_s[lane] = times[lane].seconds();
  }

 private:
  const Experiment& experiment_;
  const RunHooks& hooks_;
  const RankPrograms& programs_;
  std::optional<FactorTable> compute_;
  std::optional<FactorTable> communication_;
};

// --- Draws of stragglers -----------------------------------------------------------------------

// Few ranks are stragglers, and the rest of them do as others do: a draw replays one of each kind.
class StragglerDraws {
 public:
  StragglerDraws(const Experiment& experiment, const RunHooks& hooks, const RankPrograms& programs,
                 double step_s)
      : experiment_(experiment),
        hooks_(hooks),
        programs_(programs),
        step_s_(step_s),
        groups_(groups_of(programs, experiment.world().cluster)),
        codes_(experiment.world().cluster.device, programs, nullptr) {
    codes_.prepare(1.0);
  }

  static constexpr std::size_t kAtOnce = 1;
  void replay(std::size_t draw, std::span<double> step_s) const {
    LaneFaults drawn = lane_of_draw(experiment_, static_cast<std::int64_t>(draw));
    step_s.front() = drawn.slowdown.empty() ? step_s_ : step_with(std::move(drawn.slowdown));
  }

 private:
  [[nodiscard]] double step_with(std::vector<double> slowdown) const {
    ReplayOptions options = world_of(experiment_, hooks_);
    const MachineFaults* const own = options.cluster.faults.get();
    auto faults = std::make_shared<MachineFaults>(own == nullptr ? MachineFaults() : *own);
    faults->slowdown = std::move(slowdown);
    options.cluster.faults = std::move(faults);
    const Fold fold =
        share_equal_ranks(groups_, kinds_of(programs_, options.cluster.faults.get()), false);
    options.fold = &fold;
    options.codes = &codes_;
    RunRecord* record = nullptr;  // Made of the world.
    options.on_mark = [&](int rank, const ProgramMark& mark) { record->note(rank, mark); };
    ReplayWorld world(std::move(options), programs_);
    RunRecord made(world, experiment_.scenario().execution.steps, {}, false);
    record = &made;
    world.run();
    const int last = made.last_rank();
    return (made.last_step_end(last).clock - made.last_step_begin(last).clock).seconds();
  }

  const Experiment& experiment_;
  const RunHooks& hooks_;
  const RankPrograms& programs_;
  double step_s_;  // The step of a draw without stragglers.
  RecordedGroups groups_;
  ReplayCodes codes_;
};

// --- All draws ---------------------------------------------------------------------------------

template <class Draws>
std::vector<double> all_steps(const Draws& draws, std::size_t count, const RunHooks& hooks) {
  std::vector<double> step_s(count);
  const auto replay = [&](std::size_t batch) {
    const std::size_t first = batch * Draws::kAtOnce;
    draws.replay(first, std::span(step_s).subspan(first, std::min(Draws::kAtOnce, count - first)));
  };
  const std::size_t batches = (count + Draws::kAtOnce - 1) / Draws::kAtOnce;
  if (hooks.in_parallel) {
    hooks.in_parallel(batches, replay);
    return step_s;
  }
  for (std::size_t batch = 0; batch < batches; ++batch) {
    replay(batch);
    if (hooks.on_progress) hooks.on_progress();
  }
  return step_s;
}

std::vector<double> drawn_steps(const Experiment& experiment, const RunHooks& hooks,
                                const RankPrograms* programs, double step_s) {
  const DrawSpec& draws = experiment.scenario().faults.draws;
  const auto count = static_cast<std::size_t>(draws.count);
  if (!draws.changes_steps()) return std::vector<double>(count, step_s);
  if (draws.has_jitter()) return all_steps(JitterDraws(experiment, hooks, *programs), count, hooks);
  return all_steps(StragglerDraws(experiment, hooks, *programs, step_s), count, hooks);
}

// The days of training.tokens_total without failures; 0 without it.
double days_of_tokens(const Experiment& experiment, double step_s) {
  const TrainingSpec& training = experiment.scenario().training;
  const double tokens = static_cast<double>(training.global_batch_size) *
                        static_cast<double>(experiment.plan().whole().positions_per_sample());
  return training_days(training.tokens_total, tokens / step_s);
}

// The days in which each draw has failures.
double drawn_days(const Experiment& experiment, double step_s) {
  const DrawSpec& draws = experiment.scenario().faults.draws;
  if (draws.training_days > 0.0) return draws.training_days;
  const double days = days_of_tokens(experiment, step_s);
  return days > 0.0 ? days : kDefaultDays;
}

void draw_trainings(const Experiment& experiment, double step_s, FaultDraws& drawn) {
  const DrawSpec& draws = experiment.scenario().faults.draws;
  const FailureModel model = failure_model_of(experiment);
  const double interval_s = checkpoint_interval_of(experiment);
  const double work_s = drawn_days(experiment, step_s) * kSecondsPerDay;
  const double segments = std::clamp(std::ceil(work_s / interval_s), 1.0, kMostSegments);
  const std::string seed = std::to_string(draws.seed);
  for (std::int64_t draw = 0; draw < draws.count; ++draw) {
    const RandomStream failures(static_cast<std::uint64_t>(draw), "failures " + seed);
    const SimulatedTraining training = simulate_training(
        model, interval_s, static_cast<std::int64_t>(segments), failures, kMostFailures);
    drawn.kept_s.push_back(static_cast<double>(training.segments) * interval_s);
    drawn.wall_s.push_back(training.wall_s);
  }
}

void add_quantiles(std::vector<Metric>& metrics, const std::vector<double>& values,
                   std::initializer_list<std::pair<const MetricRow*, double>> rows) {
  for (const auto& [row, share] : rows) {
    metrics.push_back({row->name, quantile_of(values, share)});
  }
}

}  // namespace

double quantile_of(std::vector<double> values, double share) {
  std::ranges::sort(values);
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - std::floor(place)) * (values[above] - values[below]);
}

LaneFaults lane_of_draw(const Experiment& experiment, std::int64_t draw) {
  const DrawSpec& draws = experiment.scenario().faults.draws;
  const std::string seed = std::to_string(draws.seed);
  const auto number = static_cast<std::uint64_t>(draw);
  LaneFaults lane;
  lane.key = RandomStream(number, "jitter " + seed).bits(0);
  const MachineFaults* const own = experiment.faults();
  const int ranks = experiment.mesh().size();
  for (std::size_t line = 0; line < draws.stragglers.size(); ++line) {
    const DrawnStragglerSpec& straggler = draws.stragglers[line];
    const RandomStream random(number, "stragglers " + std::to_string(line) + " " + seed);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto part = static_cast<std::uint64_t>(part_of(straggler.part, experiment, rank));
      if (random.uniform(2 * part) >= straggler.probability) continue;
      if (lane.slowdown.empty()) {
        for (int other = 0; other < ranks; ++other) {
          lane.slowdown.push_back(own == nullptr ? 1.0 : own->slowdown_of(other));
        }
      }
      lane.slowdown[static_cast<std::size_t>(rank)] *=
          straggler.slowdown *
          factor_quantile(straggler.factor, inner(random.uniform(2 * part + 1)));
    }
  }
  return lane;
}

FaultDraws draw_faults(const Experiment& experiment, const RunHooks& hooks,
                       const RankPrograms* programs, double step_s) {
  const FaultSpec& faults = experiment.scenario().faults;
  FaultDraws drawn;
  drawn.step_s = drawn_steps(experiment, hooks, programs, step_s);
  if (faults.has_failures()) draw_trainings(experiment, step_s, drawn);
  return drawn;
}

void add_draws(const Experiment& experiment, const FaultDraws& draws,
               std::vector<Metric>& metrics) {
  metrics.push_back({metric::kDrawsCount.name, static_cast<std::int64_t>(draws.step_s.size())});
  const Spread steps = spread_of(draws.step_s);
  metrics.push_back({metric::kDrawsStepTimeSMean.name, steps.mean});
  metrics.push_back({metric::kDrawsStepTimeSStandardError.name, steps.standard_error});
  add_quantiles(metrics, draws.step_s,
                {{&metric::kDrawsStepTimeSP5, 0.05},
                 {&metric::kDrawsStepTimeSP50, 0.5},
                 {&metric::kDrawsStepTimeSP95, 0.95},
                 {&metric::kDrawsStepTimeSP99, 0.99}});
  std::vector<double> goodput;
  for (std::size_t draw = 0; draw < draws.wall_s.size(); ++draw) {
    goodput.push_back(draws.goodput(draw));
  }
  if (!goodput.empty()) {
    const Spread kept = ratio_of(draws.kept_s, draws.wall_s);
    metrics.push_back({metric::kDrawsGoodputMean.name, kept.mean});
    metrics.push_back({metric::kDrawsGoodputStandardError.name, kept.standard_error});
    add_quantiles(metrics, goodput,
                  {{&metric::kDrawsGoodputP5, 0.05},
                   {&metric::kDrawsGoodputP50, 0.5},
                   {&metric::kDrawsGoodputP95, 0.95}});
  }
  if (experiment.scenario().training.tokens_total <= 0.0) return;
  if (std::ranges::find(goodput, 0.0) != goodput.end()) return;  // Some never end.
  std::vector<double> days;
  for (std::size_t draw = 0; draw < draws.step_s.size(); ++draw) {
    days.push_back(days_of_tokens(experiment, draws.step_s[draw]) /
                   (goodput.empty() ? 1.0 : goodput[draw]));
  }
  add_quantiles(metrics, days,
                {{&metric::kDrawsDaysP5, 0.05},
                 {&metric::kDrawsDaysP50, 0.5},
                 {&metric::kDrawsDaysP95, 0.95}});
}

}  // namespace shardsim
