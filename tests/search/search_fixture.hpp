#pragma once

#include <string>
#include <vector>

#include "sim/search/plan_search.hpp"

// Spaces so small that every legal layout can be simulated.
namespace shardsim::test {

struct SmallSpace {
  std::string name;
  std::string model;  ///< The section "model" of a scenario.
  std::string gpu;
  std::int64_t gpus;
  std::int64_t batch;
  std::vector<std::string> overrides = {};
  std::vector<std::string> fixed = {};
};

/// The spaces of small_spaces.json: a dense one with every schedule, two with experts, long
/// sequences, and little memory; on different machines. tests/campaigns/same_results.py plans them,
/// too.
[[nodiscard]] std::vector<SmallSpace> small_spaces();
/// REQUIRES: one of them has this name.
[[nodiscard]] SmallSpace small_space(const std::string& name);

[[nodiscard]] SearchRequest request_of(const SmallSpace& space, const std::string& file);

/// The space, searched with or without bounds.
struct Searched {
  SearchBase base;
  SearchRequest request;
  SearchOutcome outcome;
};
[[nodiscard]] Searched searched(const SmallSpace& space, bool prunes, int jobs = 2,
                                Objective objective = Objective::time);

/// Every layout of the space, simulated once for all tests.
[[nodiscard]] const Searched& simulated_in_full(const SmallSpace& space);

/// "3 dp8 mb1 0.123 s 456 B" for each, so that two lists can be compared.
[[nodiscard]] std::vector<std::string> words_of_points(const std::vector<SimulatedPoint>& points);

}  // namespace shardsim::test
