#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sim/search/search_report.hpp"

// One question asked in several precisions: the best layout of each, beside each other.
namespace shardsim {

/// "fp8, bf16" -> its parts. Throws UsageError E1334 for an empty part, or one that comes twice.
[[nodiscard]] std::vector<std::string> precisions_of(const std::string& list);

/// Places in `reports`: by the objective, best first; precisions in which nothing fits come last.
[[nodiscard]] std::vector<std::size_t> rank_precisions(const std::vector<SearchReport>& reports);

/// A table with a line for each. REQUIRES: ranked; all of one model, machine and batch.
[[nodiscard]] std::string to_text(const std::vector<SearchReport>& reports,
                                  const SearchTextOptions& options);
/// {"precisions": [...]}: each as `shardsim plan --json` has it.
[[nodiscard]] std::string to_json(const std::vector<SearchReport>& reports);

}  // namespace shardsim
