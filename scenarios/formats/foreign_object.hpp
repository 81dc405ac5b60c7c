#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "scenarios/json_value.hpp"

// Foreign JSON, with places for errors. A reader asks for the keys it knows; the other keys are
// reported at the end.
namespace shardsim {

/// The allowed range of a whole number of a foreign file. Each reader gives one, so that no file
/// yields a zero, a negative number or a product beyond 64 bits: importers divide by sizes.
struct ForeignRange {
  std::int64_t least;
  std::int64_t most;

  [[nodiscard]] constexpr bool has(std::int64_t value) const {
    return least <= value && value <= most;
  }
  [[nodiscard]] std::string words() const {
    return fmt::format("a whole number from {} to {}", least, most);
  }
};

/// A width, a length, a number of tokens.
inline constexpr ForeignRange kForeignSize = {1, 1'000'000'000'000};
/// Ranks, heads, microbatches, sequences of a rank. The product of three fits into 64 bits.
inline constexpr ForeignRange kForeignDegree = {1, std::int64_t{1} << 20};
/// A count that may be 0.
inline constexpr ForeignRange kForeignCount = {0, std::int64_t{1} << 20};
/// Any number that is never a divisor. A double holds all of them.
inline constexpr ForeignRange kForeignNumber = {-9'000'000'000'000'000, 9'000'000'000'000'000};

/// A value of a foreign file under its name there, for tables.
struct ForeignValue {
  std::string name;     ///< "zero_optimization.stage"
  std::string written;  ///< As the file has it; may be empty.
};

/// A file and its JSON. Spans point into it: it must not move while they are used.
struct ForeignFile {
  SourceText source;
  JsonValue root;
};

/// Limits for what others write into JSON: long strings, many keys, Infinity.
[[nodiscard]] JsonLimits foreign_json_limits();

/// Throws ScenarioError: the file cannot be read (E0001 ...), or is not JSON with an object at the
/// top (E1352).
[[nodiscard]] std::unique_ptr<ForeignFile> read_foreign_json(const std::string& path);

/// The text of a foreign file. Throws ScenarioError.
[[nodiscard]] std::string read_foreign_text(const std::string& path);

class ForeignObject {
 public:
  /// `value` outlives this; null: an object without keys. `prefix`: "zero_optimization.", for
  /// tables.
  explicit ForeignObject(const JsonValue* value, std::string prefix = "");

  /// Null where the key is missing or its value is null.
  [[nodiscard]] const JsonValue* find(const std::string& key);
  [[nodiscard]] bool has(const std::string& key) { return find(key) != nullptr; }
  /// Whether the value is "auto".
  [[nodiscard]] bool is_auto(const std::string& key);
  // Nothing where the key is missing, null or "auto". Throw ScenarioError E1353 for another type,
  // and for a number outside the range.
  [[nodiscard]] std::optional<std::int64_t> integer(const std::string& key,
                                                    const ForeignRange& range);
  /// Also of a list that has the same number for each layer.
  [[nodiscard]] std::optional<std::int64_t> integer_of_layers(const std::string& key,
                                                              const ForeignRange& range);
  [[nodiscard]] std::optional<double> number(const std::string& key);
  /// From 0 to 1.
  [[nodiscard]] std::optional<double> share(const std::string& key);
  [[nodiscard]] std::optional<bool> truth(const std::string& key);
  [[nodiscard]] std::optional<std::string> text(const std::string& key);
  [[nodiscard]] bool has_list(const std::string& key);
  /// Null where the key is missing or null. Throws ScenarioError E1353 for another type.
  [[nodiscard]] const std::vector<JsonValue>* list(const std::string& key);
  /// The numbers of a list, of which true is 1 and false 0; none where it is missing or null.
  /// Throws ScenarioError E1353: it is no list, or has something else.
  [[nodiscard]] std::vector<double> numbers(const std::string& key);
  /// An object of this one; without keys if it is missing.
  [[nodiscard]] ForeignObject inner(const std::string& key);

  [[nodiscard]] std::string name_of(const std::string& key) const { return prefix_ + key; }
  /// As written in the file; "" if it is missing.
  [[nodiscard]] std::string written(const std::string& key) const;
  [[nodiscard]] ForeignValue at(const std::string& key) const {
    return {name_of(key), written(key)};
  }
  /// The same, with the value in other words.
  [[nodiscard]] ForeignValue at(const std::string& key, const std::string& value) const {
    return {name_of(key), value};
  }
  /// REQUIRES: the key is there.
  [[nodiscard]] const JsonValue& value_of(const std::string& key) const {
    return *value_->find(key);
  }
  /// Keys that no reader has asked for, in the file's order.
  [[nodiscard]] std::vector<std::string> rest() const;
  /// Throws ScenarioError with the place of the key's value.
  [[noreturn]] void refuse(const std::string& code, const std::string& key,
                           const std::string& message, const std::string& help) const;

 private:
  [[noreturn]] void refuse_type(const std::string& key, const JsonValue& value,
                                const std::string& wanted) const;
  [[nodiscard]] std::int64_t whole_of(const std::string& key, const JsonValue& value, double number,
                                      const ForeignRange& range) const;

  const JsonValue* value_;
  std::string prefix_;
  std::set<std::string> asked_;
};

}  // namespace shardsim
