#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "scenarios/json_value.hpp"
#include "scenarios/scenario_error.hpp"
#include "scenarios/source_text.hpp"

// The block "sweep" of a scenario: which fields take which values, for `shardsim sweep`. A plain
// run checks it and leaves it out.
//
//   "sweep": {
//     "axes": { "parallelism.tp": [1, 2, 4], "system.nodes": [1, 2] },
//     "zip": [ { "model.preset": ["gpt2-xl", "llama3-8b"], "model.seq_len": [1024, 8192] } ],
//     "skip": ["invalid", "out_of_memory"],
//     "objectives": ["max tokens_per_s_per_gpu", "min memory.peak_bytes.max"]
//   }
namespace shardsim {

/// A larger sweep is a mistake: nobody can use a list of so many rows.
inline constexpr std::size_t kMaxSweepPoints = 1'000'000;

struct SweepAxis {
  std::string path;                 ///< "parallelism.tp"
  std::vector<std::string> values;  ///< JSON on one line each, as json_text() has it.
};

/// Axes whose values go together: one, or those of a zip group. All have equally many values.
using SweepDimension = std::vector<SweepAxis>;

struct SweepObjective {
  bool maximize = true;
  std::string metric;
};

struct SweepBlock {
  std::vector<SweepDimension> dimensions;  ///< The last one varies fastest.
  std::set<std::string> skip;              ///< Statuses whose points are left out of the result.
  std::vector<SweepObjective> objectives;

  /// The product of all dimensions; 0 without any.
  [[nodiscard]] std::size_t num_points() const;
};

/// A value on one line: `"bf16"`, `8`, `0.5`, `[1,2]`.
[[nodiscard]] std::string json_text(const JsonValue& value);

/// Codes E1301 to E1306. Values are checked against their field's type, range and choices; each
/// point checks whether its fields fit together.
[[nodiscard]] SweepBlock read_sweep(const JsonValue& block, ProblemList& problems);

/// Adds "a.b=1,2,4" as given to --axis: values are JSON or bare words. An axis of the file with
/// the same path is replaced. `texts` must outlive the problems.
void add_axis_flag(SweepBlock& sweep, const std::string& flag, SourceTexts& texts,
                   ProblemList& problems);

/// Checks the sweep as a whole, and its size (E1303, E1306).
void check_dimensions(const SweepBlock& sweep, const Span& where, ProblemList& problems);

/// Removes "sweep" from the document and returns it, or null where there is none.
[[nodiscard]] JsonValue take_sweep(JsonValue& document);

}  // namespace shardsim
