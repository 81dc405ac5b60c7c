#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/problem.hpp"

namespace shardsim {

/// How popular experts are: one list of weights for all layers, or one for each with experts.
using Popularity = std::vector<std::vector<double>>;

/// Reads [1, 2.5, ...] or [[1, ...], ...] from a JSON file. Problems are added to `problems` with
/// line and column: E0001 to E0005 for an unreadable file or text, E0213 for the rest. The result
/// is then not to be used. The file is untrusted: its size is bounded before memory is taken.
[[nodiscard]] Popularity read_popularity(const std::string& path, std::int64_t num_experts,
                                         std::int64_t num_layers, ProblemList& problems);

}  // namespace shardsim
