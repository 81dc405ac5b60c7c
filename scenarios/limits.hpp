#pragma once

#include <cstdint>
#include <optional>

namespace shardsim {

struct Reading;
struct Scenario;

/// The limits of a run. Exceeding one is a problem E03xx: legal, but refused (exit code 3). Fixed
/// limits stand elsewhere: kMaxForwards of a pipeline schedule, and 64 bits.
struct LoadLimits {
  std::int64_t max_ranks = 16384;                         // that run: each is a fiber with a stack
  std::int64_t max_folded_ranks = std::int64_t{1} << 20;  // where execution.fold may fold
  std::int64_t max_host_memory_bytes = std::int64_t{8} << 30;  // of real tensors, estimated
  std::int64_t max_operations = 1'000'000'000;  // ranks x layers x microbatches x steps x blocks
};

/// The largest number of ranks of a scenario: max_folded_ranks where replicas may be folded, as
/// only a plan tells how many of them run. Then choose_fold (sim/experiment/folding) compares those
/// with the engine's limit.
[[nodiscard]] std::int64_t max_ranks_of(const Reading& reading);

/// Compares a resolved scenario with the limits; does nothing while there are other problems. Takes
/// no memory in proportion to anything in the scenario.
void check_limits(Reading& reading);

/// An upper bound on the bytes that all ranks of a run send together. No sum of traffic exceeds it,
/// so where it fits 64 bits, so does each counter. By axis, of all steps; nothing where 64 bits do
/// not hold it. Elements count 8 bytes.
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
