#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/enumerations.hpp"

// The outputs of a run: its cost, its expectations, and the files to write.
namespace shardsim {

/// The rent of the machine.
struct CostSpec {
  double usd_per_gpu_hour = 0;  // 0: not said
};

/// One line of "expect": the run fails (exit code 1) unless `metric op value` holds.
struct Expectation {
  std::string metric;
  CompareOp op = CompareOp::less_equal;
  double value = 0;
};

/// Files to write; "" means none. Paths are relative and stay below the output directory.
struct OutputSpec {
  std::string report;
  std::string markdown;
  std::string csv;  // of the metrics; tables get names beside it
  std::string trace;
  std::string result;
  std::vector<std::int64_t> trace_ranks;  // increasing; "auto" is resolved here

  /// Whether a file shows more of the run than its result.
  [[nodiscard]] bool wants_detail() const {
    return !report.empty() || !markdown.empty() || !csv.empty();
  }
};

}  // namespace shardsim
