#pragma once

#include <string>
#include <vector>

#include "reports/result.hpp"

// Whether a set field has a consequence: the result changes, or the run names the field.
namespace shardsim::test {

/// The output of a run, without its scenario.
struct Probe {
  std::string result;                   ///< JSON, without `scenario` and `warnings`.
  std::vector<std::string> statements;  ///< Warnings, and the note on fields of values.
};

[[nodiscard]] Probe probe_of(const Result& result);

enum class Hearing {
  acts,       ///< The result changes.
  named,      ///< It is the same, and the run says that the field has no effect.
  silent,     ///< It is the same, and nobody says so: an error.
  slandered,  ///< The run says that the field has no effect, but it has one.
};

/// Judges a field that `after` sets and `before` leaves unset. Ignores the assumption that tells
/// the field's own source: it says who wrote the number, not that anything depends on it.
[[nodiscard]] Hearing hearing_of(const std::string& path, const Probe& before, const Probe& after);

}  // namespace shardsim::test
