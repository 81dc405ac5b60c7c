#pragma once

#include <cstdint>
#include <optional>

#include "scenarios/scenario.hpp"

// An upper bound on the bytes that all ranks of a run send together. No sum of traffic exceeds it,
// so where it fits 64 bits, so does each counter.
namespace shardsim {

/// By axis, of all steps; nothing where 64 bits do not hold it. Elements count 8 bytes.
struct TrafficBound {
  std::optional<std::int64_t> data_parallel;
  std::optional<std::int64_t> tensor_parallel;
  std::optional<std::int64_t> pipeline;
  std::optional<std::int64_t> context_parallel;
  std::optional<std::int64_t> experts;
  std::optional<std::int64_t> total;  // With norms, losses and votes.
};
/// REQUIRES: a resolved scenario.
[[nodiscard]] TrafficBound traffic_bound(const Scenario& scenario);

}  // namespace shardsim
