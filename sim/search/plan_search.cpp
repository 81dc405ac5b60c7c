#include "sim/search/plan_search.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "sim/kernel/error.hpp"
#include "sim/kernel/metric_table.hpp"

#include "scenarios/scenario_error.hpp"
#include "sim/console/parallel.hpp"
#include "sim/run/device_memory.hpp"
#include "sim/run/run.hpp"

namespace shardsim {

namespace {

// Enough for the threads of a workstation, and few enough to simulate little in vain.
constexpr std::size_t kBatch = 16;
constexpr double kPicoseconds = 1e12;

// The number between checks for a stop and of the clock.
constexpr std::size_t kQuickAtATime = 256;

// One of the two, or neither: the reader refused the candidate.
struct Simulation {
  std::optional<SimulatedPoint> point;
  std::string failure;
};

Simulation simulate(const SearchBase& base, std::size_t index, const Candidate& candidate) {
  SimulatedPoint point;
  point.index = index;
  point.candidate = candidate;
  try {
    const Experiment experiment = compile(scenario_of(base, candidate));
    const Result result = run_experiment(experiment).result;
    if (result.diagnosis) return {{}, result.diagnosis->code + ": " + result.diagnosis->summary};
    const auto whole = [&result](const MetricRow& row) {
      return static_cast<std::int64_t>(result.number(row).value_or(0.0));
    };
    point.fits = result.exit_code != static_cast<int>(ExitCode::does_not_fit);
    for (const auto& [row, value] : kPointMetrics) point.*value = result.number(row).value_or(0.0);
    point.peak_bytes = whole(metric::kMemoryPeakBytesMax);
    point.device_bytes = whole(metric::kMemoryDeviceBytesMax);
    for (std::size_t i = 0; i < kNumMemoryCategories; ++i) {
      point.category_bytes.at(i) = whole(*kMemoryMetrics.at(i));
    }
    point.is_tight = point.fits && !leaves_margin(experiment, point.device_bytes);
    return {point, {}};
  } catch (const ScenarioError& error) {
    // The reader checks more than divisibility. A limit does not make a layout illegal.
    if (error.exit_code() == ExitCode::bad_usage) return {};
    return {{}, error.code() + ": " + error.what()};
  } catch (const Error& error) {
    if (error.exit_code() == ExitCode::internal) throw;
    return {{}, error.code() + ": " + error.what()};
  }
}

class Search {
 public:
  Search(const SearchBase& base, const SearchRequest& request, const SearchHooks& hooks)
      : base_(base),
        request_(request),
        hooks_(hooks),
        experiment_(compile(base.scenario)),
        candidates_(enumerate_candidates(experiment_, base.fixed)),
        bounds_(experiment_) {}

  SearchOutcome run() {
    outcome_.num_candidates = candidates_.size();
    fates_.resize(candidates_.size(), Fate::open);
    close_.resize(candidates_.size(), false);
    see_all();
    if (outcome_.is_interrupted) {
      outcome_.num_unseen = candidates_.size();
      return std::move(outcome_);
    }
    order_.resize(candidates_.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    if (hooks_.prunes) {
      // The best by the objective come first, then those that could be on the front, from the
      // corner on.
      visit(&Search::rank_key, true);
      visit(&Search::corner_key, false);
    } else {
      visit(&Search::rank_key, false);
    }
    if (best_.empty() && !outcome_.is_interrupted && hooks_.prunes) find_nearest_miss();
    std::ranges::sort(outcome_.simulated, {}, &SimulatedPoint::index);
    count();
    return std::move(outcome_);
  }

 private:
  enum class Fate : std::uint8_t { open, simulated, slower, too_large, refused, failed };

  void see_all() {
    quick_.reserve(candidates_.size());
    for (const Candidate& candidate : candidates_) {
      if (quick_.size() % kQuickAtATime == 0) {
        if (hooks_.on_progress) hooks_.on_progress(0, candidates_.size());
        if (hooks_.stop && hooks_.stop()) {
          outcome_.is_interrupted = true;
          return;
        }
      }
      quick_.push_back(bounds_.quick(candidate));
    }
  }

  [[nodiscard]] std::int64_t capacity() const { return base_.scenario.system.device.memory_bytes; }
  [[nodiscard]] double rank_key(const Bound& bound) const {
    return static_cast<double>(request_.objective == Objective::memory ? bound.device_bytes
                                                                       : bound.step_ps);
  }
  [[nodiscard]] double corner_key(const Bound& bound) const {
    return static_cast<double>(bound.device_bytes) * static_cast<double>(bound.step_ps);
  }

  // Whether the candidate is worse than the K-th best, whatever its simulated result is.
  [[nodiscard]] bool is_below_best(const Bound& bound) const {
    const auto top = static_cast<std::size_t>(request_.top);
    if (best_.size() < top) return false;
    const SimulatedPoint& last = best_[top - 1];
    // Tight points come last. If the K-th best is tight, only tight candidates are certainly worse.
    const bool tight = !leaves_margin(experiment_, bound.device_bytes);
    if (tight != last.is_tight) return tight;
    if (request_.objective == Objective::memory) return bound.device_bytes > last.device_bytes;
    return seconds(bound) > last.step_time_s;
  }
  [[nodiscard]] bool is_off_front(const Bound& bound) const {
    const double least = seconds(bound);
    if (!front_.empty() && least > request_.front_within * front_.front().step_time_s) return true;
    return std::any_of(front_.begin(), front_.end(), [&](const SimulatedPoint& point) {
      return (point.step_time_s < least && point.device_bytes <= bound.device_bytes) ||
             (point.step_time_s <= least && point.device_bytes < bound.device_bytes);
    });
  }
  static double seconds(const Bound& bound) {
    return static_cast<double>(bound.step_ps) / kPicoseconds;
  }

  // The verdict of the bound; open: it must be simulated (or, in the first pass, seen later).
  [[nodiscard]] Fate judge(const Bound& bound) const {
    if (bound.device_bytes > capacity()) return Fate::too_large;
    if (is_below_best(bound) && is_off_front(bound)) return Fate::slower;
    return Fate::open;
  }

  // Visits all open candidates in the order of a key. `ranking`: skips those that can only be on
  // the front.
  void visit(double (Search::*key)(const Bound&) const, bool ranking) {
    std::ranges::stable_sort(order_, {}, [&](std::size_t i) { return (this->*key)(quick_[i]); });
    std::vector<std::size_t> batch;
    for (const std::size_t index : order_) {
      if (outcome_.is_interrupted) return;
      if (fates_[index] != Fate::open || !is_wanted(index, ranking)) continue;
      batch.push_back(index);
      if (batch.size() == kBatch) simulate_batch(batch);
    }
    if (!outcome_.is_interrupted) simulate_batch(batch);
  }

  [[nodiscard]] bool is_wanted(std::size_t index, bool ranking) {
    if (!hooks_.prunes) return true;
    const auto decided = [&] {
      const Fate fate = judge(quick_[index]);
      if (fate != Fate::open) fates_[index] = fate;
      return fate != Fate::open || (ranking && is_below_best(quick_[index]));
    };
    if (decided()) return false;
    if (close_[index]) return true;
    if (hooks_.stop && hooks_.stop()) outcome_.is_interrupted = true;
    tighten(index);
    return !decided();
  }

  // A candidate with an impossible schedule keeps its quick bound: its run reports the error.
  void tighten(std::size_t index) {
    if (close_[index]) return;
    close_[index] = true;
    try {
      quick_[index] = bounds_.close(candidates_[index]);
    } catch (const UsageError&) {
    }
  }

  void simulate_batch(std::vector<std::size_t>& batch) {
    if (batch.empty()) return;
    const std::size_t all = num_done_ + std::max(num_left(), batch.size());
    std::vector<Simulation> runs(batch.size());
    std::vector<char> ended(batch.size(), 0);
    run_parallel(batch.size(), hooks_.jobs,
                 {.body =
                      [&](std::size_t i) {
                        runs[i] = simulate(base_, batch[i], candidates_[batch[i]]);
                        ended[i] = 1;
                      },
                  .finished =
                      [&](std::size_t) {
                        ++num_done_;
                        if (hooks_.on_progress) hooks_.on_progress(num_done_, all - num_done_);
                      },
                  .stop = hooks_.stop});
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (ended[i] != 0) settle(batch[i], runs[i]);
      outcome_.is_interrupted |= ended[i] == 0;
    }
    batch.clear();
  }

  void settle(std::size_t index, const Simulation& run) {
    if (run.point) {
      fates_[index] = Fate::simulated;
      keep(*run.point);
      return;
    }
    fates_[index] = run.failure.empty() ? Fate::refused : Fate::failed;
    if (run.failure.empty() || index >= first_failed_) return;
    first_failed_ = index;
    outcome_.first_failure = run.failure;
    outcome_.failed = candidates_[index];
  }

  // As far as is known now: most of these will turn out not to matter.
  [[nodiscard]] std::size_t num_left() const {
    std::size_t left = 0;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (fates_[i] != Fate::open) continue;
      if (!hooks_.prunes || judge(quick_[i]) == Fate::open) ++left;
    }
    return left;
  }

  void keep(const SimulatedPoint& point) {
    outcome_.simulated.push_back(point);
    if (!point.fits) return;
    const auto place = std::upper_bound(best_.begin(), best_.end(), point,
                                        [&](const SimulatedPoint& a, const SimulatedPoint& b) {
                                          return ranks_before(a, b, request_.objective);
                                        });
    best_.insert(place, point);
    if (best_.size() > static_cast<std::size_t>(request_.top)) best_.pop_back();
    front_.push_back(point);
    front_ = pareto_front(front_, request_.front_within);
  }

  // Finds the candidate that needs least memory if all are too large. It simulates in the order of
  // the bounds, until the remaining bounds are above the simulated memory.
  void find_nearest_miss() {
    std::ranges::stable_sort(order_, {}, [&](std::size_t i) { return quick_[i].device_bytes; });
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    const auto simulate_more = [&](std::vector<std::size_t>& indices) {
      simulate_batch(indices);
      for (const auto& point : outcome_.simulated) least = std::min(least, point.device_bytes);
    };
    std::vector<std::size_t> batch;
    simulate_more(batch);  // None yet: what was simulated before counts.
    for (const std::size_t index : order_) {
      if (outcome_.is_interrupted || quick_[index].device_bytes >= least) break;
      if (fates_[index] != Fate::too_large) continue;
      tighten(index);
      if (quick_[index].device_bytes >= least) continue;
      batch.push_back(index);
      if (batch.size() == kBatch) simulate_more(batch);
    }
    if (!outcome_.is_interrupted) simulate_more(batch);
  }

  void count() {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 0; i < fates_.size(); ++i) {
      if (fates_[i] == Fate::slower) ++outcome_.num_slower;
      if (fates_[i] == Fate::refused) ++outcome_.num_refused;
      if (fates_[i] == Fate::failed) ++outcome_.num_failed;
      if (fates_[i] == Fate::open) ++outcome_.num_unseen;
      if (fates_[i] != Fate::too_large) continue;
      ++outcome_.num_too_large;
      if (quick_[i].device_bytes >= least) continue;
      least = outcome_.least_bytes = quick_[i].device_bytes;
      outcome_.least = candidates_[i];
    }
  }

  const SearchBase& base_;
  const SearchRequest& request_;
  const SearchHooks& hooks_;
  const Experiment experiment_;  // The experiment of the base.
  std::vector<Candidate> candidates_;
  BoundTable bounds_;
  std::vector<Bound> quick_;  // Or close ones, if close_ is set.
  std::vector<bool> close_;
  std::vector<Fate> fates_;
  std::vector<std::size_t> order_;
  std::vector<SimulatedPoint> best_;  // At most request.top, best first.
  std::vector<SimulatedPoint> front_;
  std::size_t num_done_ = 0;
  std::size_t first_failed_ = std::numeric_limits<std::size_t>::max();
  SearchOutcome outcome_;
};

}  // namespace

bool ranks_before(const SimulatedPoint& a, const SimulatedPoint& b, Objective objective) {
  if (objective == Objective::memory) {
    return std::tie(a.is_tight, a.device_bytes, a.step_time_s, a.index) <
           std::tie(b.is_tight, b.device_bytes, b.step_time_s, b.index);
  }
  return std::tie(a.is_tight, a.step_time_s, a.device_bytes, a.index) <
         std::tie(b.is_tight, b.step_time_s, b.device_bytes, b.index);
}

std::vector<SimulatedPoint> pareto_front(const std::vector<SimulatedPoint>& points, double within) {
  std::vector<SimulatedPoint> sorted;
  std::ranges::copy_if(points, std::back_inserter(sorted), &SimulatedPoint::fits);
  std::ranges::sort(sorted, {}, [](const SimulatedPoint& point) {
    return std::tie(point.step_time_s, point.device_bytes, point.index);
  });
  std::vector<SimulatedPoint> front;
  for (const SimulatedPoint& point : sorted) {
    if (!front.empty() && point.step_time_s > within * front.front().step_time_s) break;
    if (front.empty() || point.device_bytes < front.back().device_bytes) front.push_back(point);
  }
  return front;
}

SearchOutcome search(const SearchBase& base, const SearchRequest& request,
                     const SearchHooks& hooks) {
  return Search(base, request, hooks).run();
}

}  // namespace shardsim
