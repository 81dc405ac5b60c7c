#include "sim/accuracy/mapping_reader.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "scenarios/suggest.hpp"

namespace shardsim {

namespace {

std::string written(const JsonValue& value) {
  return value.span.source->text.substr(value.span.offset, value.span.length);
}

}  // namespace

void MappingReader::problem(const std::string& code, const Span& span, const std::string& message,
                            const std::string& help) {
  problems_->add(code, span, "", message, help);
}

bool MappingReader::has_keys(const JsonValue& value, std::initializer_list<const char*> known) {
  if (!value.is_object()) {
    problem("E0926", value.span, "an object is needed here, not " + describe(value));
    return false;
  }
  const std::vector<std::string> keys(known.begin(), known.end());
  bool all_known = true;
  for (const JsonMember& member : value.object()) {
    if (std::find(keys.begin(), keys.end(), member.key) != keys.end()) continue;
    all_known = false;
    const std::string near = nearest(member.key, keys);
    problem("E0926", member.key_span, "unknown key \"" + printable(member.key) + "\"",
            near.empty() ? "keys are " + one_of_list(keys) : "write \"" + near + "\"");
  }
  return all_known;
}

const JsonValue* MappingReader::required(const JsonValue& object, const char* key) {
  const JsonValue* value = object.find(key);
  if (value == nullptr) {
    problem("E0926", {object.span.source, object.span.offset, 1},
            fmt::format("\"{}\" is missing here", key), "docs/guide/validation.md describes it");
  }
  return value;
}

std::string MappingReader::text(const JsonValue& value) {
  if (value.is_string() && !value.string().empty()) return value.string();
  problem("E0926", value.span, "a text is needed here, not " + describe(value));
  return {};
}

std::string MappingReader::text(const JsonValue& object, const char* key) {
  const JsonValue* value = required(object, key);
  return value == nullptr ? std::string() : text(*value);
}

std::optional<std::size_t> MappingReader::column(const JsonValue& value) {
  const std::string name = text(value);
  if (name.empty()) return std::nullopt;
  const std::size_t found = table_->find_column(name);
  if (found != MeasurementTable::kNoColumn) return found;
  const std::string near = nearest(name, table_->columns);
  problem(
      "E0927", value.span,
      fmt::format("{} has no column \"{}\"", printable(table_->source->name, 200), printable(name)),
      near.empty() ? "its columns are " + one_of_list(table_->columns) : "write \"" + near + "\"");
  return std::nullopt;
}

std::vector<std::size_t> MappingReader::columns(const JsonValue& list) {
  std::vector<std::size_t> found;
  if (!list.is_array() || list.array().empty()) {
    problem("E0926", list.span, "a list of columns is needed here, not " + describe(list));
    return found;
  }
  for (const JsonValue& name : list.array()) {
    if (const std::optional<std::size_t> one = column(name)) found.push_back(*one);
  }
  return found;
}

std::vector<RowFactor> MappingReader::factors(const JsonValue& list) {
  std::vector<RowFactor> found;
  if (!list.is_array() || list.array().empty()) {
    problem("E0926", list.span,
            "a list of columns and numbers is needed here, not " + describe(list));
    return found;
  }
  for (const JsonValue& value : list.array()) {
    if (const std::optional<double> number = value.number()) {
      found.push_back({std::nullopt, *number});
    } else if (const std::optional<std::size_t> one = column(value)) {
      found.push_back({one, 1.0});
    }
  }
  return found;
}

RowValue MappingReader::literal(const JsonValue& value) {
  if (std::holds_alternative<std::nullptr_t>(value.data)) return {};
  if (value.is_object()) {
    if (!has_keys(value, {"cannot"})) return {};
    return {RowValue::Kind::refused, text(value, "cannot")};
  }
  return {RowValue::Kind::given, written(value)};
}

RowConversion MappingReader::conversion(const JsonValue& value) {
  RowConversion conversion;
  conversion.place = value.span;
  if (!has_keys(value, {"column", "words", "product", "over", "empty"})) return conversion;
  const JsonValue* product = value.find("product");
  const JsonValue* name = value.find("column");
  const JsonValue* over = value.find("over");
  const JsonValue* words = value.find("words");
  conversion.is_product = product != nullptr;
  if ((product != nullptr) == (name != nullptr) || (over != nullptr && product == nullptr) ||
      (words != nullptr && name == nullptr)) {
    problem("E0926", value.span,
            "a value is made either of a \"column\", perhaps with \"words\", "
            "or of a \"product\", perhaps \"over\" others");
    return conversion;
  }
  if (product != nullptr) conversion.product = factors(*product);
  if (over != nullptr) conversion.over = factors(*over);
  if (name != nullptr) {
    if (const std::optional<std::size_t> one = column(*name)) {
      conversion.product.push_back({one, 1.0});
    }
  }
  if (words != nullptr && (!words->is_object() || words->object().empty())) {
    problem("E0926", words->span, "an object of words is needed here, not " + describe(*words));
  } else if (words != nullptr) {
    for (const JsonMember& word : words->object()) {
      conversion.words[word.key] = literal(word.value);
    }
  }
  if (const JsonValue* empty = value.find("empty")) conversion.empty = literal(*empty);
  return conversion;
}

}  // namespace shardsim
