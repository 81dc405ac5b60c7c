#include "scenarios/formats/foreign_object.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "scenarios/read_file.hpp"
#include "scenarios/scenario_error.hpp"

namespace shardsim {

namespace {

// Far above any configuration, and a run log of a day.
constexpr std::size_t kMostBytes = std::size_t{256} << 20U;

bool is_null(const JsonValue& value) { return std::holds_alternative<std::nullptr_t>(value.data); }

}  // namespace

std::string read_foreign_text(const std::string& path) {
  return read_regular_file(path, kMostBytes);
}

JsonLimits foreign_json_limits() {
  JsonLimits limits;
  // Tokenizers put whole dictionaries into a configuration.
  limits.max_string_bytes = std::size_t{1} << 20U;
  limits.max_members = limits.max_nodes;
  limits.has_infinity = true;  // In Nemotron-H's time_step_limit.
  return limits;
}

std::unique_ptr<ForeignFile> read_foreign_json(const std::string& path) {
  auto file = std::make_unique<ForeignFile>();
  file->source = {path, read_foreign_text(path)};
  ProblemList problems;
  std::optional<JsonValue> root = parse_json(file->source, problems, foreign_json_limits());
  problems.throw_if_any();
  if (!root->is_object()) {
    throw_problem("E1352", root->span, path + " holds " + describe(*root) + ", not an object",
                  "name the configuration file itself");
  }
  file->root = std::move(*root);
  return file;
}

ForeignObject::ForeignObject(const JsonValue* value, std::string prefix)
    : value_(value), prefix_(std::move(prefix)) {}

const JsonValue* ForeignObject::find(const std::string& key) {
  asked_.insert(key);
  if (value_ == nullptr) return nullptr;
  const JsonValue* found = value_->find(key);
  return found == nullptr || is_null(*found) ? nullptr : found;
}

bool ForeignObject::is_auto(const std::string& key) {
  const JsonValue* value = find(key);
  return value != nullptr && value->is_string() && value->string() == "auto";
}

std::optional<std::int64_t> ForeignObject::integer(const std::string& key,
                                                   const ForeignRange& range) {
  const std::optional<double> found = number(key);
  if (!found) return std::nullopt;
  return whole_of(key, *find(key), *found, range);
}

std::optional<std::int64_t> ForeignObject::integer_of_layers(const std::string& key,
                                                             const ForeignRange& range) {
  const JsonValue* value = find(key);
  if (value == nullptr || !value->is_array()) return integer(key, range);
  const std::vector<JsonValue>& list = value->array();
  const std::optional<double> first = list.empty() ? std::nullopt : list.front().number();
  const bool is_one =
      std::ranges::all_of(list, [&first](const JsonValue& each) { return each.number() == first; });
  if (!first || !is_one || !std::isfinite(*first)) {
    refuse_type(key, *value, "a number, or the same one for each layer");
  }
  return whole_of(key, *value, *first, range);
}

std::int64_t ForeignObject::whole_of(const std::string& key, const JsonValue& value, double number,
                                     const ForeignRange& range) const {
  // Files write 1e9 and 5e8 where they mean counts.
  const auto largest = static_cast<double>(kForeignNumber.most);
  if (std::floor(number) != number || std::abs(number) > largest) {
    refuse_type(key, value, "a whole number");
  }
  const auto whole = static_cast<std::int64_t>(number);
  if (!range.has(whole)) refuse_type(key, value, range.words());
  return whole;
}

std::optional<double> ForeignObject::number(const std::string& key) {
  const JsonValue* value = find(key);
  if (value == nullptr || is_auto(key)) return std::nullopt;
  const auto number = value->number();
  if (number && std::isfinite(*number)) return number;
  refuse_type(key, *value, number ? "finite" : "a number");
}

std::optional<double> ForeignObject::share(const std::string& key) {
  const std::optional<double> found = number(key);
  if (found && (*found < 0.0 || *found > 1.0)) refuse_type(key, *find(key), "a number from 0 to 1");
  return found;
}

std::optional<bool> ForeignObject::truth(const std::string& key) {
  const JsonValue* value = find(key);
  if (value == nullptr || is_auto(key)) return std::nullopt;
  if (const auto* held = std::get_if<bool>(&value->data)) return *held;
  refuse_type(key, *value, "true or false");
}

std::optional<std::string> ForeignObject::text(const std::string& key) {
  const JsonValue* value = find(key);
  if (value == nullptr || is_auto(key)) return std::nullopt;
  if (!value->is_string()) refuse_type(key, *value, "a string");
  return value->string();
}

bool ForeignObject::has_list(const std::string& key) {
  const JsonValue* value = find(key);
  return value != nullptr && value->is_array();
}

const std::vector<JsonValue>* ForeignObject::list(const std::string& key) {
  const JsonValue* value = find(key);
  if (value == nullptr) return nullptr;
  if (!value->is_array()) refuse_type(key, *value, "a list");
  return &value->array();
}

std::vector<double> ForeignObject::numbers(const std::string& key) {
  std::vector<double> numbers;
  const std::vector<JsonValue>* values = list(key);
  if (values == nullptr) return numbers;
  for (std::size_t i = 0; i < values->size(); ++i) {
    const JsonValue& value = (*values)[i];
    const bool* const truth = std::get_if<bool>(&value.data);
    const std::optional<double> number = truth != nullptr ? (*truth ? 1.0 : 0.0) : value.number();
    if (!number || !std::isfinite(*number)) {
      refuse_type(fmt::format("{}[{}]", key, i), value, "a number");
    }
    numbers.push_back(*number);
  }
  return numbers;
}

ForeignObject ForeignObject::inner(const std::string& key) {
  const JsonValue* value = find(key);
  if (value != nullptr && !value->is_object()) refuse_type(key, *value, "an object");
  return ForeignObject(value, prefix_ + key + ".");
}

std::string ForeignObject::written(const std::string& key) const {
  const JsonValue* value = value_ == nullptr ? nullptr : value_->find(key);
  if (value == nullptr) return "";
  return value->span.source->text.substr(value->span.offset, value->span.length);
}

std::vector<std::string> ForeignObject::rest() const {
  std::vector<std::string> keys;
  if (value_ == nullptr) return keys;
  for (const JsonMember& member : value_->object()) {
    if (asked_.count(member.key) == 0) keys.push_back(member.key);
  }
  return keys;
}

void ForeignObject::refuse(const std::string& code, const std::string& key,
                           const std::string& message, const std::string& help) const {
  const JsonValue* value = value_ == nullptr ? nullptr : value_->find(key);
  throw_problem(code, value == nullptr ? Span{} : value->span, message, help);
}

void ForeignObject::refuse_type(const std::string& key, const JsonValue& value,
                                const std::string& wanted) const {
  throw_problem("E1353", value.span,
                "\"" + prefix_ + key + "\" is " + describe(value) + ", not " + wanted,
                "correct it in the file it was imported from");
}

}  // namespace shardsim
