#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/json_value.hpp"
#include "scenarios/scenario_error.hpp"
#include "sim/accuracy/measurement_table.hpp"

namespace shardsim {

/// Reads values from the JSON of a mapping; an error becomes a problem with its place, and reading
/// continues.
class MappingReader {
 public:
  explicit MappingReader(ProblemList& problems) : problems_(&problems) {}

  /// Columns may be named from now on.
  void use_table(const MeasurementTable& table) { table_ = &table; }

  void problem(const std::string& code, const Span& span, const std::string& message,
               const std::string& help = "");

  /// Whether `value` is an object with no other keys than these.
  bool has_keys(const JsonValue& value, std::initializer_list<const char*> known);
  /// The member, or null and a problem. REQUIRES: object.is_object().
  const JsonValue* required(const JsonValue& object, const char* key);
  /// Empty and a problem if the value is no text.
  std::string text(const JsonValue& value);
  std::string text(const JsonValue& object, const char* key);
  /// The column that `value` names; none and a problem if there is none.
  std::optional<std::size_t> column(const JsonValue& value);
  std::vector<std::size_t> columns(const JsonValue& list);
  RowConversion conversion(const JsonValue& value);
  /// A value of a field, null (left out) or {"cannot": "why"}.
  RowValue literal(const JsonValue& value);

 private:
  std::vector<RowFactor> factors(const JsonValue& list);

  ProblemList* problems_;
  const MeasurementTable* table_ = nullptr;
};

}  // namespace shardsim
