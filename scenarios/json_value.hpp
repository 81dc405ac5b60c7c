#pragma once

// JSON values with their places in the text. Every error of the loader names file, line and column.
// The library nlohmann/json 3.11 cannot tell them. It also skips a byte order mark, takes a NUL
// byte for the end of the text and keeps the last of two equal keys. A test
// (tests/scenarios/json_parser_test.cpp) compares this reader with nlohmann's on random texts.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "scenarios/scenario_error.hpp"
#include "scenarios/source_text.hpp"

namespace shardsim {

struct JsonMember;
struct JsonValue;
using JsonArray = std::vector<JsonValue>;
using JsonObject = std::vector<JsonMember>;  // in the order written; keys are unique

struct JsonValue {
  /// Whole numbers that fit are int64_t; all others, and any with a point or an exponent, double.
  std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, JsonArray, JsonObject> data;
  Span span;

  bool is_object() const { return std::holds_alternative<JsonObject>(data); }
  bool is_string() const { return std::holds_alternative<std::string>(data); }
  bool is_array() const { return std::holds_alternative<JsonArray>(data); }
  JsonObject& object() { return std::get<JsonObject>(data); }
  const JsonObject& object() const { return std::get<JsonObject>(data); }
  JsonArray& array() { return std::get<JsonArray>(data); }
  const JsonArray& array() const { return std::get<JsonArray>(data); }
  const std::string& string() const { return std::get<std::string>(data); }

  /// The value of a number, with a point or without; nothing of anything else.
  std::optional<double> number() const;

  /// The member called `key`, or null. REQUIRES: is_object().
  const JsonValue* find(const std::string& key) const;
  JsonValue* find(const std::string& key);
};

struct JsonMember {
  std::string key;
  Span key_span;
  JsonValue value;
};

/// "an object", "a string", "true", "the number 2.9": a value as errors call it.
std::string describe(const JsonValue& value);

/// Bounds on the text, checked before memory is taken for it. They are far above any scenario (the
/// largest is a list of all 16,384 ranks). The worst text is refused within 10 ms.
struct JsonLimits {
  std::size_t max_bytes = std::size_t{1} << 20U;
  int max_depth = 32;
  std::size_t max_string_bytes = 4096;
  std::size_t max_nodes = 17000;
  std::size_t max_members = 1000;  // keys of one object
  bool has_infinity = false;       // Infinity is a number, as Python writes it
};

/// Parses one JSON text; // and /* */ comments are allowed. Stops at the first error of syntax and
/// returns nothing; duplicate keys are all reported, and the value is returned.
std::optional<JsonValue> parse_json(const SourceText& source, ProblemList& problems,
                                    const JsonLimits& limits = {});

}  // namespace shardsim
