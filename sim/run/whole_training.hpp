#pragma once

#include <cstdint>
#include <vector>

#include "reports/result.hpp"
#include "reports/run_detail.hpp"
#include "sim/experiment/experiment.hpp"

// A whole training, if every step is like the simulated one: its useful time and its cost.
//
// The useful time of a long training with failures and checkpoints: closed forms, and the metrics
// of an experiment. Failures come at a constant rate 1 / M, in restarts and checkpoints, too. After
// each, the job restarts, for R without a failure, and repeats the work since its last checkpoint;
// a segment is T of work and then C of checkpoint. In seconds.
//
// tests/faults compares the closed forms with a simulation of single failures.
namespace shardsim {

inline constexpr double kSecondsPerDay = 86400.0;

/// The days in which a job trains on so many tokens, at so many each second.
[[nodiscard]] constexpr double training_days(double tokens, double tokens_per_s) {
  return tokens / tokens_per_s / kSecondsPerDay;
}

struct FailureModel {
  double mtbf_s = 0.0;        ///< M of the job. Above 0.
  double checkpoint_s = 0.0;  ///< C: training stands still. Above 0.
  double restart_s = 0.0;     ///< R: from a failure to the next work, with its detection.
};

/// sqrt(2 C M). Source: Young, "A first order approximation to the optimum checkpoint interval"
/// (CACM 17(9), 1974).
[[nodiscard]] double young_interval_s(const FailureModel& model);
/// sqrt(2 C M) (1 + sqrt(x) / 3 + x / 9) - C with x = C / 2M for C < 2M, else M. Source: Daly, "A
/// higher order estimate of the optimum checkpoint interval for restart dumps" (Future Generation
/// Computer Systems 22, 2006).
[[nodiscard]] double daly_interval_s(const FailureModel& model);
/// The T of the largest useful share: the root of e^((T + C) / M) (1 - T / M) = 1, by bisection.
[[nodiscard]] double best_interval_s(const FailureModel& model);

/// M e^(R/M) (e^((T + C)/M) - 1): the mean time until a segment is done. Source: Daly 2006, for one
/// segment; tests/faults has a proof by simulation.
[[nodiscard]] double expected_segment_s(const FailureModel& model, double interval_s);

/// Shares of that time; they sum to 1.
struct TimeShares {
  double useful = 0.0;      ///< T: the goodput.
  double checkpoint = 0.0;  ///< C.
  double rework = 0.0;      ///< Work and checkpoints that a failure throws away.
  double restart = 0.0;     ///< 1 - e^(-R/M).
};
[[nodiscard]] TimeShares time_shares(const FailureModel& model, double interval_s);

// --- How well a rate is known ------------------------------------------------------------------

/// The possible range of the mean of a Poisson count.
struct PoissonInterval {
  double low = 0.0;
  double high = 0.0;
};

/// The central 90 % interval of the mean after `count` events were seen. Exact to 100 events:
/// Garwood, "Fiducial limits for the Poisson distribution" (Biometrika 28, 1936). Above that,
/// Byar's approximation, within 0.1 % of it: Breslow, Day, "Statistical methods in cancer research"
/// II (IARC, 1987), section 2.3. REQUIRES: count >= 1.
[[nodiscard]] PoissonInterval poisson_interval(std::int64_t count);

/// The approximation, for any count.
[[nodiscard]] PoissonInterval byar_interval(double count);

// --- Experiments -------------------------------------------------------------------------------

/// Weights, master weights if they differ from the weights, and optimizer state, each once.
[[nodiscard]] std::int64_t checkpoint_bytes(const Experiment& experiment);

/// Rates of all GPUs and nodes together. REQUIRES: it has failures.
[[nodiscard]] FailureModel failure_model_of(const Experiment& experiment);

/// The training between two checkpoints: that of the scenario, or Daly's. REQUIRES: it has
/// failures.
[[nodiscard]] double checkpoint_interval_of(const Experiment& experiment);

/// goodput.*, with tokens_per_s of `metrics`; nothing without failures.
void add_goodput(const Experiment& experiment, std::vector<Metric>& metrics);

// --- Cost --------------------------------------------------------------------------------------

/// Uses the metric tokens_per_s of `result`, or goodput.effective_tokens_per_s if it has one. days
/// = tokens_total / rate / 86400; GPU hours = days x 24 x ranks; USD = GPU hours x price. All zero
/// if no tokens are given, or the rate is zero.
[[nodiscard]] CostEstimate cost_of(const Experiment& experiment, const Result& result);

/// Adds cost.days, cost.gpu_hours and cost.usd, if they are known, and their assumptions.
void add_cost(const Experiment& experiment, Result& result);

}  // namespace shardsim
