#pragma once

#include <string>
#include <vector>

#include "reports/result.hpp"

// Whether a field that somebody sets is heard of: the result changes, or the run names the field.
namespace shardsim::test {

/// What a run says of itself, without its scenario.
struct Probe {
  std::string result;                   ///< JSON, without `scenario` and `warnings`.
  std::vector<std::string> statements;  ///< Warnings, and the note of fields of values.
};

[[nodiscard]] Probe probe_of(const Result& result);

enum class Hearing {
  acts,       ///< The result is another one.
  named,      ///< It is the same, and the run says that the field has no effect.
  silent,     ///< It is the same, and nobody says so: what must not be.
  slandered,  ///< The run says that the field has no effect, and it has one.
};

/// How a field fared that `after` sets and `before` leaves as it was. The line of the assumptions
/// that tells the field's own source does not count: it says who wrote the number, not that
/// anything rests on it.
[[nodiscard]] Hearing hearing_of(const std::string& path, const Probe& before, const Probe& after);

}  // namespace shardsim::test
