#pragma once

#include <string>
#include <vector>

#include "reports/result.hpp"

// The law of folding: the metrics of a plan are those of the plan in which every rank runs.
namespace shardsim::test {

/// A small transformer on nodes of eight, to be changed by overrides. Its biases, norms and
/// vocabulary are not divisible by anything, its buckets so small that shards differ.
[[nodiscard]] std::string small_plan(const std::string& family);

/// The plan, with execution.fold as given.
[[nodiscard]] Result planned(const std::string& text, std::vector<std::string> overrides,
                             const std::string& fold);

/// The first difference in words; "" if the law holds. Metrics but trace_hash, checks with their
/// details and the exit code must be equal.
[[nodiscard]] std::string difference(const Result& folded, const Result& whole);

/// How many ranks the result says were run; all if it does not say.
[[nodiscard]] int num_run(const Result& result);

}  // namespace shardsim::test
