#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/kernel/memory_ledger.hpp"
#include "sim/kernel/metric_rows.hpp"

#include "sim/search/candidate_bound.hpp"
#include "sim/search/search_request.hpp"

// Simulates the candidates that could matter, and proves that all others cannot.
namespace shardsim {

/// The result of a candidate's simulation: metrics under the same names as in results.
struct SimulatedPoint {
  std::size_t index = 0;  ///< The candidate's index; ties go to the lower.
  Candidate candidate;
  bool fits = false;
  double step_time_s = 0;
  double compute_s = 0;
  double exposed_comm_s = 0;
  double hidden_comm_s = 0;
  double bubble_s = 0;
  double host_s = 0;
  double mfu = 0;
  double tokens_per_s = 0;
  double tokens_per_s_per_gpu = 0;
  std::int64_t peak_bytes = 0;  ///< Peak of the tensors alone.
  std::array<std::int64_t, kNumMemoryCategories> category_bytes{};
  std::int64_t device_bytes = 0;  ///< With the allocator's gaps, CUDA context and NCCL's buffers:
                                  ///< what fits, ranks and is on the front by memory.
  bool is_tight = false;          ///< Fits, but leaves less than execution.memory_margin.
};

/// The metrics of a point that are times and rates, in the order of files.
struct PointMetric {
  const MetricRow& row;
  double SimulatedPoint::*value;
};
inline constexpr std::array kPointMetrics = {
    PointMetric{metric::kStepTimeS, &SimulatedPoint::step_time_s},
    PointMetric{metric::kTokensPerS, &SimulatedPoint::tokens_per_s},
    PointMetric{metric::kTokensPerSPerGpu, &SimulatedPoint::tokens_per_s_per_gpu},
    PointMetric{metric::kMfu, &SimulatedPoint::mfu},
    PointMetric{metric::kTimeComputeS, &SimulatedPoint::compute_s},
    PointMetric{metric::kTimeExposedCommS, &SimulatedPoint::exposed_comm_s},
    PointMetric{metric::kTimeHiddenCommS, &SimulatedPoint::hidden_comm_s},
    PointMetric{metric::kTimeBubbleS, &SimulatedPoint::bubble_s},
    PointMetric{metric::kTimeHostS, &SimulatedPoint::host_s},
};

/// Candidates by their fate: the simulated and the counts below add up to num_candidates.
struct SearchCounts {
  std::size_t num_candidates = 0;
  std::size_t num_slower = 0;     ///< Not simulated: neither among the best nor on the front.
  std::size_t num_too_large = 0;  ///< Not simulated: the bound exceeds the memory.
  std::size_t num_refused = 0;    ///< Refused by the scenario's reader.
  std::size_t num_failed = 0;     ///< Legal, but the run ended early: deadlock, a limit exceeded.
  std::string first_failure;      ///< Its code and words, for the failed layout of lowest index.
  std::size_t num_unseen = 0;     ///< Not decided when the search was interrupted.
  bool is_interrupted = false;
};

struct SearchOutcome : SearchCounts {
  std::vector<SimulatedPoint> simulated;  ///< By index.
  Candidate failed;                       ///< The failed layout of lowest index.
  std::int64_t least_bytes = 0;  ///< The smallest need among candidates that are too large to run.
  Candidate least;
};

struct SearchHooks {
  int jobs = 1;
  /// `open`: not decided yet; bounds decide most of these without a simulation.
  std::function<void(std::size_t simulated, std::size_t open)> on_progress;
  std::function<bool()> stop;
  /// Whether bounds decide which candidates are simulated; false: all legal ones are.
  bool prunes = true;
};

/// The result is the same for any number of jobs: the candidates to simulate are chosen between
/// batches of fixed size. Each other candidate does not fit the device, or it is strictly worse
/// than `request.top` simulated ones and off the front: strictly dominated in (time, memory) by a
/// simulated one, or slower than the front reaches. Memory is that of the device. If nothing fits,
/// the candidate that needs least memory is among the simulated.
[[nodiscard]] SearchOutcome search(const SearchBase& base, const SearchRequest& request,
                                   const SearchHooks& hooks);

/// Better first: points that leave the margin, then by the objective, then by the other of time and
/// memory, then by index.
[[nodiscard]] bool ranks_before(const SimulatedPoint& a, const SimulatedPoint& b,
                                Objective objective);

/// The points that fit and that no other beats in both time and memory, up to `within` times the
/// step of the fastest; by time.
[[nodiscard]] std::vector<SimulatedPoint> pareto_front(const std::vector<SimulatedPoint>& points,
                                                       double within);

}  // namespace shardsim
