#pragma once

// One field of a scenario, described once. From the rows of the field table come the reader, the
// defaults, the JSON Schema, the reference page and the "did you mean" hints.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "scenarios/choices.hpp"
#include "scenarios/list_items.hpp"
#include "scenarios/scenario.hpp"

namespace shardsim {

enum class FieldType { boolean, integer, number, text, choice, rank_list, integer_list };

using FieldValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>>;

/// What another program calls the same thing, for hints only: such names are never accepted.
struct ForeignName {
  std::string tool;
  std::string name;
};

struct NumberRange {
  double min = 0;
  double max = 0;
  bool above_min = false;  // min itself is not allowed
  bool below_max = false;
};

/// A row. `path` joins the keys with dots; "expect[].op" is a key of each object in a list.
/// The chained calls keep a row readable as one sentence.
struct Field {
  std::string path;
  FieldType type = FieldType::text;
  std::string meaning;
  std::string units;
  NumberRange limits;
  std::string default_json;   // "" when there is no fixed default
  std::string derived_words;  // how a missing value is found, in words; "" when it is not
  bool is_required = false;
  bool takes_auto = false;  // the string "auto" asks for the derived value
  bool is_sourced = false;  // may be written {"value": 1, "source": "where from"}
  std::vector<std::string> choices;
  std::string missing_part;         // what is not built yet
  std::vector<std::string> served;  // choices that work already; empty: the default alone
  std::vector<ForeignName> foreign_names;
  std::string acts_words;  // "zero_stage is 3": when the field has an effect; "": always
  std::function<bool(const Scenario&)> acts;  // null: always
  std::function<void(Scenario&, const FieldValue&)> set;
  std::function<FieldValue(const Scenario&)> get;  // null: read, checked and then forgotten
  /// Of a key of objects in a list, in place of get: of the item at an index, if it is there.
  std::function<std::optional<FieldValue>(const Scenario&, std::size_t)> get_item;

  Field& doc(const char* text) { return meaning = text, *this; }
  Field& unit(const char* text) { return units = text, *this; }
  Field& range(double min, double max) { return limits = {min, max, false, false}, *this; }
  Field& above(double min, double max) { return limits = {min, max, true, false}, *this; }
  Field& below(double min, double max) { return limits = {min, max, false, true}, *this; }
  Field& or_else(const char* json) { return default_json = json, *this; }
  Field& derived(const char* words) { return derived_words = words, *this; }
  Field& required() { return is_required = true, *this; }
  Field& or_auto() { return takes_auto = true, *this; }
  Field& sourced() { return is_sourced = true, *this; }
  Field& in_order() { return type = FieldType::integer_list, *this; }  // a list, not a set
  Field& one_of(std::vector<std::string> names) {
    return type = FieldType::choice, choices = std::move(names), *this;
  }
  /// Only the default works until `part` is built.
  Field& until(const char* part) { return missing_part = part, *this; }
  /// Only `names` work until `part` is built.
  Field& until(const char* part, std::vector<std::string> names) {
    return missing_part = part, served = std::move(names), *this;
  }
  /// The field has an effect only while `when` holds; `words` complete "it acts only when ...".
  Field& acts_when(const char* words, bool (*when)(const Scenario&)) {
    return acts_words = words, acts = when, *this;
  }
  Field& foreign(std::vector<ForeignName> names) { return foreign_names = std::move(names), *this; }
};

namespace field_internal {

template <typename T>
FieldType type_of() {
  if constexpr (std::is_same_v<T, bool>) {
    return FieldType::boolean;
  } else if constexpr (std::is_enum_v<T>) {
    return FieldType::choice;
  } else if constexpr (std::is_integral_v<T>) {
    return FieldType::integer;
  } else if constexpr (std::is_floating_point_v<T>) {
    return FieldType::number;
  } else if constexpr (std::is_same_v<T, std::string>) {
    return FieldType::text;
  } else {
    static_assert(std::is_same_v<T, std::vector<std::int64_t>>);
    return FieldType::rank_list;
  }
}

template <typename T>
void assign(T& target, const FieldValue& value) {
  if constexpr (std::is_enum_v<T>) {
    const std::span<const char* const> names = choice_names(T{});
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (std::get<std::string>(value) == names[i]) {
        target = static_cast<T>(i);
      }
    }
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    target = static_cast<T>(std::get<std::int64_t>(value));
  } else {
    target = std::get<T>(value);
  }
}

template <typename T>
FieldValue read(const T& source) {
  if constexpr (std::is_enum_v<T>) {
    return std::string(to_string(source));
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    return static_cast<std::int64_t>(source);
  } else {
    return source;
  }
}

template <typename T>
Field typed(const char* path) {
  Field row;
  row.path = path;
  row.type = type_of<T>();
  if constexpr (std::is_enum_v<T>) {
    for (const char* name : choice_names(T{})) {
      row.choices.emplace_back(name);
    }
  }
  return row;
}

}  // namespace field_internal

/// A row bound to a member of Scenario, of the member's type: field("a.b", &Scenario::a, &A::b).
template <typename... Members>
Field field(const char* path, Members... members) {
  using T = std::remove_cvref_t<decltype((std::declval<Scenario&>().*....*members))>;
  Field row = field_internal::typed<T>(path);
  row.set = [members...](Scenario& s, const FieldValue& value) {
    field_internal::assign((s.*....*members), value);
  };
  row.get = [members...](const Scenario& s) { return field_internal::read((s.*....*members)); };
  return row;
}

/// A text that the loader itself uses and no part of a run needs.
inline Field loader_field(const char* path) {
  Field row = field_internal::typed<std::string>(path);
  row.set = [](Scenario&, const FieldValue&) {};
  return row;
}

/// A group of fields. `path` "" is the document; `is_list` marks a list of objects.
struct Section {
  std::string path;
  std::string meaning;
  bool is_list = false;
  std::string preset_folder;  // "models": a string stands for {"preset": ...} from there
  ListItems items = {};       // of a list
};

/// Whether it is a key of the objects in a list: "expect[].op".
[[nodiscard]] bool is_item_field(const Field& field);

/// All rows, in the order they are printed and checked.
const std::vector<Field>& field_table();
const std::vector<Section>& section_table();

/// The row or section of a path, or null.
const Field* find_field(std::string_view path);
const Section* find_section(std::string_view path);

/// "parallelism" of "parallelism.tp"; "" of "name".
std::string parent_path(std::string_view path);
/// "tp" of "parallelism.tp".
std::string last_key(std::string_view path);

}  // namespace shardsim
