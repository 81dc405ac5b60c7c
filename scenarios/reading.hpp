#pragma once

// The state of loading one scenario: the values read so far, where each was written, and every
// problem found. The reader fills it; the checks in resolve.cpp complete it.

#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scenarios/field.hpp"
#include "scenarios/json_value.hpp"
#include "scenarios/load.hpp"
#include "scenarios/scenario.hpp"
#include "scenarios/scenario_error.hpp"

namespace shardsim {

struct FieldState {
  bool given = false;  // written somewhere: file, preset or flag
  bool good = false;   // has a value that may be used: given and valid, a default, or derived
  Span span;
  std::string pointer;
  std::string source;
  std::optional<FieldValue> written;  // as read, before any check changes it
};

/// Whether it is written, and not in a preset.
[[nodiscard]] inline bool written_by_user(const FieldState& state) {
  return state.given && state.span.source != nullptr && !state.span.source->preset;
}

struct Reading {
  Scenario scenario;
  ProblemList problems;
  std::map<std::string, FieldState> fields;  // by path; of lists, see items
  std::map<std::string, Span> sections;      // those written, by path; "" is the document
  std::set<std::string> broken;              // sections whose preset could not be read
  std::set<std::string> idle_presets;        // sections that override all of their preset
  /// Lists by their path ("expect"): the states of each object's keys, by key; its own by "".
  std::map<std::string, std::vector<std::map<std::string, FieldState>>> items;
  LoadLimits limits;
  std::string folder;  // the scenario's: files that it names are beside it

  /// The state of a field; an empty one for a field that nobody has written or settled.
  const FieldState& state(const std::string& path) const;
  bool given(const std::string& path) const { return state(path).given; }
  bool good(const std::string& path) const { return state(path).good; }
  /// True if every one of `paths` may be used in a check.
  bool all_good(std::initializer_list<const char*> paths) const;
  /// Marks a derived value as settled.
  void settle(const std::string& path) { fields[path].good = true; }

  /// The state of a key of an object in a list; not given if it is not written.
  FieldState item(const std::string& list, std::size_t index, const std::string& key) const;

  /// Adds a problem at the field, or at the nearest section written if the field was not.
  void problem(const std::string& code, const std::string& path, const std::string& message,
               const std::string& help = "", const std::string& label = "");
  Span where(const std::string& path) const;
};

/// "/parallelism/tp" of "parallelism.tp".
std::string pointer_of(const std::string& path);

/// Reads a document (presets merged, flags applied) by the field table; fills defaults and reports
/// what is missing. Derived values are left to resolve().
void read_document(const JsonValue& document, Reading& reading);

/// Reads one value as `field` says: type, range, choices. Nothing if it has a problem.
/// `automatic` is set if the value asks for the derived one.
std::optional<FieldValue> read_value(const Field& field, const JsonValue& value,
                                     const std::string& pointer, ProblemList& problems,
                                     bool& automatic);

/// The value of a row's default_json; rows are ours, so it parses. REQUIRES: there is one.
FieldValue default_of(const Field& field);

/// Fills the derived values and checks everything that more than one field decides.
void resolve(Reading& reading);

/// Whether a field has a meaning in this scenario. Other fields would be refused, or confuse, when
/// they are read back.
bool is_meaningful(const Field& field, const Scenario& scenario);

/// The shortest text that reads back as `value`: "0.9", "1e-08", "16".
std::string number_text(double value);

}  // namespace shardsim
