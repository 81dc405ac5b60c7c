#include "scenarios/formats/import.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/kernel/error.hpp"

#include "scenarios/source_text.hpp"

namespace shardsim {

namespace {

using ImportJson = nlohmann::ordered_json;

constexpr std::array kSections = {"model", "system", "parallelism", "training", "execution"};

ImportJson json_of(const FieldValue& value) {
  return std::visit([](const auto& held) { return ImportJson(held); }, value);
}

const char* word_of(Fate fate) {
  switch (fate) {
    case Fate::taken:
      return "taken";
    case Fate::derived:
      return "derived";
    case Fate::ignored:
      return "ignored";
    case Fate::needs_you:
      return "needs you";
    case Fate::measured:
      return "measured";
  }
  return "";
}

std::string assignment(const std::string& path, const FieldValue& value) {
  return path + " = " + text_of_value(value);
}

constexpr std::array kOrder = {Fate::taken, Fate::derived, Fate::measured, Fate::ignored,
                               Fate::needs_you};

}  // namespace

std::string text_of_value(const FieldValue& value) { return json_of(value).dump(); }

void Import::write(const std::string& path, const FieldValue& value) {
  if (fields_.insert_or_assign(path, value).second) order_.push_back(path);
}

void Import::take(const std::string& foreign, const std::string& value, const std::string& path,
                  const FieldValue& ours) {
  write(path, ours);
  rows_.push_back({Fate::taken, foreign, value, assignment(path, ours)});
}

void Import::derive(const std::string& foreign, const std::string& value, const std::string& path,
                    const FieldValue& ours, const std::string& why) {
  write(path, ours);
  rows_.push_back(
      {Fate::derived, foreign, value, assignment(path, ours) + (why.empty() ? "" : ": " + why)});
}

void Import::ignore(const std::string& foreign, const std::string& value, const std::string& why) {
  rows_.push_back({Fate::ignored, foreign, value, why});
}

void Import::assume(const std::string& what, const std::string& path, const FieldValue& assumed,
                    const std::string& why) {
  write(path, assumed);
  rows_.push_back({Fate::needs_you, what, "", assignment(path, assumed) + " assumed: " + why});
}

void Import::warn(const std::string& foreign, const std::string& value, const std::string& why) {
  rows_.push_back({Fate::needs_you, foreign, value, why});
}

void Import::measure(const std::string& foreign, const std::string& value,
                     const std::string& note) {
  rows_.push_back({Fate::measured, foreign, value, note});
}

std::int64_t Import::integer(const std::string& path) const {
  return std::get<std::int64_t>(fields_.at(path));
}

std::string Import::scenario_json() const {
  ImportJson document = {
      {"$schema", "scenario.schema.json"}, {"schema_version", 1}, {"name", name_}};
  for (const char* section : kSections) {
    for (const std::string& path : order_) {
      const std::size_t dot = path.find('.');
      if (path.substr(0, dot) != section) continue;
      document[section][path.substr(dot + 1)] = json_of(fields_.at(path));
    }
  }
  return document.dump(2, ' ', false, ImportJson::error_handler_t::replace) + "\n";
}

std::string Import::table() const {
  constexpr std::size_t kWidest = 44;
  std::size_t width = 0;
  std::size_t value_width = 0;
  for (const ImportRow& row : rows_) {
    width = std::max(width, std::min(row.foreign.size(), kWidest));
    value_width = std::max(value_width, printable(row.value, kWidest).size());
  }
  std::string text;
  for (const Fate fate : kOrder) {
    for (const ImportRow& row : rows_) {
      if (row.fate != fate) continue;
      constexpr std::size_t kWholeSentence = 400;
      text += fmt::format("  {:9}  {:{}}  {:{}}  {}\n", word_of(fate),
                          printable(row.foreign, kWidest), width, printable(row.value, kWidest),
                          value_width, printable(row.ours, kWholeSentence));
    }
  }
  return text;
}

void refuse_or_warn(const std::vector<std::string>& inexpressible, const std::string& file,
                    bool approximate, Import& import) {
  if (inexpressible.empty()) return;
  if (!approximate) {
    std::string list;
    for (const std::string& each : inexpressible) list += (list.empty() ? "" : "; ") + each;
    throw UsageError("E1355", file + " says what no scenario can: " + list,
                     "--approximate writes the nearest scenario, and says what is not as it was");
  }
  for (const std::string& each : inexpressible) {
    import.warn("not expressible", "", each);
  }
}

}  // namespace shardsim
