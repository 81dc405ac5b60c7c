#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "scenarios/field.hpp"

// The result of an importer: a scenario, field by field, and a table with the fate of every foreign
// name. Nothing is written into the scenario without a row.
namespace shardsim {

/// The fate of a foreign name.
enum class Fate : std::uint8_t { taken, derived, ignored, needs_you, measured };

struct ImportRow {
  Fate fate;
  std::string foreign;  ///< Its name there, or what is missing there.
  std::string value;    ///< Its value there; may be empty.
  std::string ours;     ///< Field and value here, or why there is none.
};

class Import {
 public:
  /// The same thing under our name.
  void take(const std::string& foreign, const std::string& value, const std::string& path,
            const FieldValue& ours);
  /// Follows from the foreign value. `why` completes the row, and may be empty.
  void derive(const std::string& foreign, const std::string& value, const std::string& path,
              const FieldValue& ours, const std::string& why = "");
  void ignore(const std::string& foreign, const std::string& value, const std::string& why);
  /// The file does not give it: `assumed` is written so that the scenario loads.
  void assume(const std::string& what, const std::string& path, const FieldValue& assumed,
              const std::string& why);
  /// The user must look at it; nothing is written.
  void warn(const std::string& foreign, const std::string& value, const std::string& why);
  void measure(const std::string& foreign, const std::string& value, const std::string& note);

  [[nodiscard]] bool has(const std::string& path) const { return fields_.count(path) > 0; }
  /// REQUIRES: has(path), and that it is a whole number.
  [[nodiscard]] std::int64_t integer(const std::string& path) const;
  void set_name(const std::string& name) { name_ = name; }

  /// The scenario's file; ends in a newline.
  [[nodiscard]] std::string scenario_json() const;
  [[nodiscard]] const std::vector<ImportRow>& rows() const { return rows_; }
  /// The rows as text; those that need the user come last.
  [[nodiscard]] std::string table() const;

 private:
  void write(const std::string& path, const FieldValue& value);

  std::string name_ = "imported";
  std::map<std::string, FieldValue> fields_;
  std::vector<std::string> order_;  // Fields in the order of their arrival.
  std::vector<ImportRow> rows_;
};

/// "8", "0.5", "true", "bf16".
[[nodiscard]] std::string text_of_value(const FieldValue& value);

/// Reports all parts that a scenario cannot express. If there are any, throws UsageError E1355;
/// with `approximate`, each becomes a row that needs the user instead.
void refuse_or_warn(const std::vector<std::string>& inexpressible, const std::string& file,
                    bool approximate, Import& import);

}  // namespace shardsim
