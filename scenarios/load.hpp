#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/scenario.hpp"
#include "scenarios/scenario_error.hpp"

// From a file to a Scenario. All problems are found in one pass and thrown together.
namespace shardsim {

/// The limits of a run. Exceeding one is a problem E03xx: legal, but refused (exit code 3). Fixed
/// limits stand elsewhere: kMaxForwards of a pipeline schedule, and 64 bits.
struct LoadLimits {
  std::int64_t max_ranks = 16384;                       // that run: each is a fiber with a stack
  std::int64_t max_plan_ranks = std::int64_t{1} << 20;  // that are replayed or folded
  std::int64_t max_host_memory_bytes = std::int64_t{8} << 30;  // of real tensors, estimated
  std::int64_t max_operations = 1'000'000'000;  // ranks x layers x microbatches x steps x blocks
};

/// Reads, merges and checks the scenario in the file `path`. Presets are looked for beside it, then
/// in the built-in folder. Each override is "a.b=value", as given to --set, and wins over the file.
/// Throws ScenarioError.
Scenario load_scenario(const std::string& path, const std::vector<std::string>& overrides = {},
                       const LoadLimits& limits = {});

/// The same for a text; `file_name` is used in errors and to find presets beside it.
Scenario load_scenario_text(const std::string& text, const std::string& file_name,
                            const std::vector<std::string>& overrides = {},
                            const LoadLimits& limits = {});

/// The scenario as JSON with every field written out, in the order of the field table: defaults
/// filled in, presets merged, "auto" replaced. One fixed text per scenario; loading it gives the
/// same scenario again (origins of numbers are kept beside it, in Scenario::sources).
std::string write_resolved(const Scenario& scenario);

/// The same for people who change one value: values that follow from a layout, a batch or a machine
/// are left out, so the rest may change alone. Loading it gives the same scenario, too.
std::string write_changeable(const Scenario& scenario);

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
