#pragma once

#include <optional>
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
  refused,    ///< The loader accepts the value, and the run then refuses it: an error.
};

/// Judges a field that `after` sets and `before` leaves unset. Ignores the assumption that tells
/// the field's own source: it says who wrote the number, not that anything depends on it.
[[nodiscard]] Hearing hearing_of(const std::string& path, const Probe& before, const Probe& after);

/// How a field was judged in one scenario.
struct Heard {
  std::string path;
  std::string base;
  std::optional<Hearing> hearing;  ///< Nothing: no other value of the field is legal there.
  bool at_home = false;            ///< The scenario was chosen so that the field acts.
  std::string said = {};           ///< The run's refusal.
};

/// Everything that is wrong: a field is silent, slandered or refused, does not act at home, or is
/// one of `to_act` and acts nowhere. Since each run may name a field, that last rule is what finds
/// a field that nobody reads.
[[nodiscard]] std::vector<std::string> complaints(const std::vector<std::string>& to_act,
                                                  const std::vector<Heard>& all);

}  // namespace shardsim::test
