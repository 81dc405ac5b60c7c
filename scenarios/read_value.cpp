#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "sim/kernel/text.hpp"

#include "scenarios/reading.hpp"
#include "scenarios/suggest.hpp"

namespace shardsim {
namespace {

// Beyond this a double no longer holds every whole number.
constexpr double kLargestWhole = 9007199254740992.0;

struct Place {
  const Field& field;
  const JsonValue& value;
  const std::string& pointer;
  ProblemList& problems;

  std::nullopt_t refuse(const char* code, const std::string& message, const std::string& help = "",
                        const std::string& label = "", Fix fix = {}) const {
    problems.add(code, value.span, pointer, message, help, label, std::move(fix));
    return std::nullopt;
  }
  std::string name() const { return "\"" + last_key(field.path) + "\""; }
};

std::optional<FieldValue> read_typed(const Place& place);

std::string with_unit(const Field& field, double value) {
  return number_text(value) + (field.units.empty() ? "" : " " + field.units);
}

bool in_range(const NumberRange& range, double value) {
  const bool above = range.above_min ? value > range.min : value >= range.min;
  const bool below = range.below_max ? value < range.max : value <= range.max;
  return above && below;
}

std::string range_words(const Field& field) {
  const NumberRange& range = field.limits;
  if (range.min == range.max) return "the only value is " + number_text(range.min);
  return (range.above_min ? "above " : "at least ") + number_text(range.min) +
         (range.below_max ? " and below " : " and at most ") + with_unit(field, range.max);
}

std::nullopt_t out_of_range(const Place& place, const std::string& shown) {
  const std::string& units = place.field.units;
  return place.refuse(
      "E0102",
      place.name() + " is " + shown + (units.empty() ? "" : " " + units) + ", out of range",
      "the range: " + range_words(place.field));
}

std::nullopt_t wrong_type(const Place& place, const std::string& wanted) {
  const FieldType type = place.field.type;
  std::string help;
  if (type == FieldType::boolean) {
    help = "write true or false";
  } else if (type == FieldType::rank_list || type == FieldType::integer_list) {
    help = "write [1, 2]";
  } else if (place.value.is_string() && !place.field.takes_auto) {
    help = "write it without quotes";
  }
  if (place.field.takes_auto) help += help.empty() ? "or \"auto\"" : ", or \"auto\"";
  Fix fix;
  if (place.value.is_string()) {
    fix = fix_of_quotes(place.value, [&place](const JsonValue& bare) {
      ProblemList ignored;
      return read_typed(Place{place.field, bare, place.pointer, ignored}).has_value();
    });
  }
  return place.refuse("E0101",
                      place.name() + " must be " + wanted + ", not " + describe(place.value), help,
                      "", std::move(fix));
}

std::optional<FieldValue> read_integer(const Place& place) {
  const NumberRange& range = place.field.limits;
  std::int64_t whole = 0;
  if (const auto* integer = std::get_if<std::int64_t>(&place.value.data)) {
    whole = *integer;
  } else if (const auto* number = std::get_if<double>(&place.value.data);
             number != nullptr && *number == std::floor(*number)) {
    if (std::fabs(*number) > kLargestWhole) return out_of_range(place, number_text(*number));
    whole = static_cast<std::int64_t>(*number);
  } else {
    return wrong_type(place, "a whole number");
  }
  // Compared as integers: 2^53 + 1 rounds to 2^53 as a double. The ends are whole, at most 2^53.
  if (whole < static_cast<std::int64_t>(range.min) ||
      whole > static_cast<std::int64_t>(range.max)) {
    return out_of_range(place, std::to_string(whole));
  }
  return whole;
}

std::optional<FieldValue> read_number(const Place& place) {
  const std::optional<double> number = place.value.number();
  if (!number) return wrong_type(place, "a number");
  if (!in_range(place.field.limits, *number)) return out_of_range(place, number_text(*number));
  return *number;
}

bool hides_something(const std::string& text) {
  for (std::size_t at = 0; at < text.size(); /* in the body */) {
    char32_t character = 0;
    const int length = decode_utf8(text, at, character);
    if (length == 0 || is_invisible(character)) return true;
    at += static_cast<std::size_t>(length);
  }
  return false;
}

std::optional<FieldValue> read_text(const Place& place) {
  if (!place.value.is_string()) return wrong_type(place, "a string");
  const std::string& text = place.value.string();
  if (hides_something(text)) {
    return place.refuse("E0113", place.name() + " holds an invisible or control character",
                        "names and paths are shown on terminals; keep to visible characters");
  }
  return text;
}

std::optional<FieldValue> read_choice(const Place& place) {
  const std::vector<std::string>& choices = place.field.choices;
  if (!place.value.is_string()) {
    return place.refuse("E0101", place.name() + " must be a string, not " + describe(place.value),
                        "one of " + one_of_list(choices));
  }
  const std::string& text = place.value.string();
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return text;
  const std::vector<std::string> family = names_of_family(text, choices);
  return place.refuse(
      "E0104", place.name() + " cannot be \"" + printable(text, 40) + "\"",
      family.empty() ? "one of " + one_of_list(choices) : "write " + one_of_list(family),
      near_label(text, choices), fix_of_choice(place.value, choices));
}

// Ranks are a set, other numbers stand in their order.
std::optional<FieldValue> read_integers(const Place& place) {
  const bool is_set = place.field.type == FieldType::rank_list;
  if (!place.value.is_array()) {
    return wrong_type(place, is_set ? "a list of ranks" : "a list of whole numbers");
  }
  if (place.value.array().empty()) {
    return place.refuse("E0102", place.name() + " is an empty list",
                        "leave it out for the default");
  }
  std::vector<std::int64_t> integers;
  Field element = place.field;
  element.type = FieldType::integer;
  element.takes_auto = false;
  for (const JsonValue& item : place.value.array()) {
    const std::string pointer = pointer_to(place.pointer, std::to_string(integers.size()));
    const auto integer = read_integer(Place{element, item, pointer, place.problems});
    if (!integer.has_value()) return std::nullopt;
    integers.push_back(std::get<std::int64_t>(*integer));
  }
  if (is_set) {
    std::sort(integers.begin(), integers.end());
    integers.erase(std::unique(integers.begin(), integers.end()), integers.end());
  }
  return integers;
}

std::optional<FieldValue> read_typed(const Place& place) {
  switch (place.field.type) {
    case FieldType::boolean:
      if (const auto* truth = std::get_if<bool>(&place.value.data)) return *truth;
      return wrong_type(place, "true or false");
    case FieldType::integer:
      return read_integer(place);
    case FieldType::number:
      return read_number(place);
    case FieldType::text:
      return read_text(place);
    case FieldType::choice:
      return read_choice(place);
    case FieldType::rank_list:
    case FieldType::integer_list:
      return read_integers(place);
  }
  return std::nullopt;
}

// Refuses values that the format knows and no part of the program serves yet.
bool check_served(const Place& place, const FieldValue& value) {
  const Field& field = place.field;
  if (field.missing_part.empty()) return true;
  std::string way_out;
  if (field.served.empty()) {
    if (value == default_of(field)) return true;
    way_out = field.default_json == "\"\"" ? "leave " + place.name() + " out"
                                           : "leave " + place.name() + " at " + field.default_json;
  } else {
    const auto& text = std::get<std::string>(value);
    if (std::find(field.served.begin(), field.served.end(), text) != field.served.end()) {
      return true;
    }
    way_out = "use " + one_of_list(field.served);
  }
  place.refuse("E0106",
               place.name() + " asks for " + field.missing_part + ", which is not built yet",
               way_out);
  return false;
}

}  // namespace

FieldValue default_of(const Field& field) {
  const SourceText text{"default of " + field.path, field.default_json, true};
  ProblemList problems;
  const std::optional<JsonValue> value = parse_json(text, problems);
  return *read_typed(Place{field, *value, field.path, problems});
}

std::string number_text(double value) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  std::string text(buffer.data(), end);
  // Whole numbers as people write them: 26214400, not 2.62144e+07.
  if (value == std::floor(value) && std::fabs(value) < kLargestWhole) {
    text = std::to_string(static_cast<std::int64_t>(value));
  }
  return text;
}

std::optional<FieldValue> read_value(const Field& field, const JsonValue& value,
                                     const std::string& pointer, ProblemList& problems,
                                     bool& automatic) {
  const Place place{field, value, pointer, problems};
  automatic = field.takes_auto && value.is_string() && value.string() == "auto";
  if (automatic) return std::nullopt;
  std::optional<FieldValue> result = read_typed(place);
  if (result.has_value() && !check_served(place, *result)) return std::nullopt;
  return result;
}

}  // namespace shardsim
