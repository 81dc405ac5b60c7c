#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reports/run_detail.hpp"
#include "scenarios/scenario.hpp"
#include "sim/run/run.hpp"

namespace shardsim::test {

/// A run with what pages show of it.
struct DetailedRun {
  std::string name;
  Scenario scenario;
  Result result;
  RunDetail detail;

  [[nodiscard]] double metric(const std::string& metric) const { return *result.number(metric); }
  /// The stage of the rank whose times the result has.
  [[nodiscard]] const StageTime& last_stage_to_end() const;
};

[[nodiscard]] DetailedRun detailed(const std::string& path,
                                   const std::vector<std::string>& overrides = {});

/// Each kind of parallelism, alone and together; with data and without, folded and not. Run once.
[[nodiscard]] const std::vector<DetailedRun>& detailed_runs();

/// The picoseconds of a time that was a whole number of them.
[[nodiscard]] std::int64_t picoseconds(double seconds);

}  // namespace shardsim::test
