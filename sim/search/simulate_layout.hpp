#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "sim/kernel/memory_ledger.hpp"
#include "sim/kernel/metric_rows.hpp"

#include "sim/search/search_request.hpp"

// The full simulation of one candidate.
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

struct Simulation {
  std::optional<SimulatedPoint> point;
  std::string failure;  ///< Why the run ended early. Without it and a point: the reader refused it.
};

/// Leaves simulate_layout() early. It is no Error: an Error is a finding of the run.
struct SimulationAbandoned {};

/// `is_over`: asked now and then, from the calling thread; null: never over. If it says yes,
/// SimulationAbandoned is thrown. One rank's recording, the longest that nothing is asked for, is
/// part of a second.
[[nodiscard]] Simulation simulate_layout(const SearchBase& base, std::size_t index,
                                         const Candidate& candidate,
                                         const std::function<bool()>& is_over = {});

}  // namespace shardsim
