#pragma once

// One field of a scenario, described once. From the rows of the field table come the reader, the
// defaults, the JSON Schema, the reference page and the "did you mean" hints.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "scenarios/scenario.hpp"

namespace shardsim {

enum class FieldType { boolean, integer, number, text, choice, rank_list, integer_list };

using FieldValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>>;

/// Another program's name for the field, for hints only: such names are never accepted.
struct ForeignName {
  std::string tool;
  std::string name;
  bool is_same = false;  // the same quantity in the same unit
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
  bool is_of_values = false;
  bool derives_only = false;
  std::string acts_words;  // "zero_stage is 3": when the field has an effect; "": always
  std::function<bool(const Scenario&)> acts;  // null: always
  std::function<void(Scenario&, const FieldValue&)> set;
  std::function<FieldValue(const Scenario&)> get;     // null: read, checked and then forgotten
  std::function<void(Scenario&, ReadMark)> set_mark;  // null: reads are not noted
  /// For a key of objects in a list, in place of get: its value at an index, if it is there.
  std::function<std::optional<FieldValue>(const Scenario&, std::size_t)> get_item;

  Field& doc(std::string text) { return meaning = std::move(text), *this; }
  Field& unit(const char* text) { return units = text, *this; }
  Field& range(double min, double max) { return limits = {min, max, false, false}, *this; }
  Field& above(double min, double max) { return limits = {min, max, true, false}, *this; }
  Field& below(double min, double max) { return limits = {min, max, false, true}, *this; }
  Field& or_else(std::string json) { return default_json = std::move(json), *this; }
  Field& derived(std::string words) { return derived_words = std::move(words), *this; }
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
  Field& acts_when(std::string words, std::function<bool(const Scenario&)> when) {
    return acts_words = std::move(words), acts = std::move(when), *this;
  }
  /// Only values of tensors depend on the field: it changes no plan.
  Field& of_values() { return is_of_values = true, *this; }
  /// The field acts only through other fields that are derived from it.
  Field& by_others() { return derives_only = true, *this; }
  /// Names whose values have our unit and our meaning: `shardsim fix` writes our key for them.
  Field& same_as(std::vector<ForeignName> names) {
    for (ForeignName& name : names) name.is_same = true;
    return foreign(names);
  }
  /// Names that hints translate. Their values differ: a bucket in MB, an interleaving in layers, a
  /// flag for a level.
  Field& foreign(const std::vector<ForeignName>& names) {
    return foreign_names.insert(foreign_names.end(), names.begin(), names.end()), *this;
  }
};

/// The facts that the reader and the writer need about a list of objects.
struct ListItems {
  std::string name;     // "an expectation"
  std::string example;  // "{...}": one of them
  void (*append)(Scenario&) = nullptr;
  std::size_t (*count)(const Scenario&) = nullptr;
};

/// A group of fields. `path` "" is the document; `is_list` marks a list of objects.
struct Section {
  std::string path;
  std::string meaning;
  bool is_list = false;
  std::string preset_folder = {};  // "models": a string stands for {"preset": ...} from there
  ListItems items = {};            // of a list
};

/// Whether it is a key of the objects in a list: "expect[].op".
[[nodiscard]] bool is_item_field(const Field& field);

/// All rows, in the order they are printed and checked.
const std::vector<Field>& field_table();
const std::vector<Section>& section_table();

/// The mark under which reads of a row's value are noted: its number in the table, from 1 on.
[[nodiscard]] ReadMark mark_of(const Field& field);
/// REQUIRES: mark_of() of some row.
[[nodiscard]] const Field& field_of(ReadMark mark);

/// The row or section of a path, or null.
const Field* find_field(std::string_view path);
const Section* find_section(std::string_view path);

/// "parallelism" of "parallelism.tp"; "" of "name".
std::string parent_path(std::string_view path);
/// "tp" of "parallelism.tp".
std::string last_key(std::string_view path);

// The table for others. Both texts are shipped as files, and a test compares them with these.

/// JSON Schema, draft-07, of a scenario file. A schema cannot say everything: the loader alone
/// checks rules about several fields (ranks, batch, heads).
std::string scenario_schema();

/// docs/guide/scenario-reference.md.
std::string scenario_reference();

}  // namespace shardsim
