#pragma once

// The useful time of a long training with failures and checkpoints: closed forms. Failures come at
// a constant rate 1 / M, in restarts and checkpoints, too. After each, the job restarts, for R
// without a failure, and repeats the work since its last checkpoint; a segment is T of work and
// then C of checkpoint. In seconds.
//
// tests/faults compares all of them with a simulation of single failures.
namespace shardsim {

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

}  // namespace shardsim
