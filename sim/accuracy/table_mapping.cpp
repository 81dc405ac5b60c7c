#include "sim/accuracy/table_mapping.hpp"

#include <algorithm>
#include <filesystem>
#include <initializer_list>

#include <fmt/format.h>

#include "scenarios/field.hpp"
#include "scenarios/json_value.hpp"
#include "scenarios/read_file.hpp"
#include "scenarios/scenario_error.hpp"
#include "scenarios/suggest.hpp"

namespace shardsim {

namespace {

std::string written(const JsonValue& value) {
  return value.span.source->text.substr(value.span.offset, value.span.length);
}

std::string blanked_around(const std::string& text, const Span& kept) {
  std::string blank = text;
  for (std::size_t i = 0; i < blank.size(); ++i) {
    const bool inside = i >= kept.offset && i < kept.offset + kept.length;
    if (!inside && blank[i] != '\n') blank[i] = ' ';
  }
  return blank;
}

// The way out of a wrong name: the nearest of `known`, or else `otherwise`.
std::string help_for(const std::string& name, const std::vector<std::string>& known,
                     const std::string& otherwise) {
  const std::string near = nearest(name, known);
  return near.empty() ? otherwise : "write \"" + near + "\"";
}

// Reads the JSON of a mapping, part by part; an error becomes a problem with its place, and reading
// continues. Columns are those of the mapping's table, which is read before the parts that name
// columns.
class TableMappingReader {
 public:
  TableMappingReader(TableMapping& mapping, ProblemList& problems)
      : mapping_(&mapping), problems_(&problems) {}

  void problem(const std::string& code, const Span& span, const std::string& message,
               const std::string& help = "") {
    problems_->add(code, span, "", message, help);
  }

  // `what`: "an object".
  void needed(const JsonValue& value, const std::string& what) {
    problem("E0926", value.span, what + " is needed here, not " + describe(value));
  }

  // False and a problem if the value is none.
  bool is_object(const JsonValue& value) {
    if (value.is_object()) return true;
    needed(value, "an object");
    return false;
  }

  // Whether `value` is an object with no other keys than these.
  bool has_keys(const JsonValue& value, std::initializer_list<const char*> known) {
    if (!is_object(value)) return false;
    const std::vector<std::string> keys(known.begin(), known.end());
    bool all_known = true;
    for (const JsonMember& member : value.object()) {
      if (std::find(keys.begin(), keys.end(), member.key) != keys.end()) continue;
      all_known = false;
      problem("E0926", member.key_span, "unknown key \"" + printable(member.key) + "\"",
              help_for(member.key, keys, "keys are " + one_of_list(keys)));
    }
    return all_known;
  }

  // The member, or null and a problem. REQUIRES: object.is_object().
  const JsonValue* required(const JsonValue& object, const char* key) {
    const JsonValue* value = object.find(key);
    if (value == nullptr) {
      problem("E0926", {object.span.source, object.span.offset, 1},
              fmt::format("\"{}\" is missing here", key), "docs/guide/validation.md describes it");
    }
    return value;
  }

  // Empty and a problem if the value is no text.
  std::string text(const JsonValue& value) {
    if (value.is_string() && !value.string().empty()) return value.string();
    needed(value, "a text");
    return {};
  }

  std::string text(const JsonValue& object, const char* key) {
    const JsonValue* value = required(object, key);
    return value == nullptr ? std::string() : text(*value);
  }

  // The column that `value` names; none and a problem if there is none.
  std::optional<std::size_t> column(const JsonValue& value) {
    const std::string name = text(value);
    if (name.empty()) return std::nullopt;
    const MeasurementTable& table = mapping_->table;
    const std::size_t found = table.find_column(name);
    if (found != MeasurementTable::kNoColumn) return found;
    problem(
        "E0927", value.span,
        fmt::format("{} has no column \"{}\"", printable(table.source->name, 200), printable(name)),
        help_for(name, table.columns, "its columns are " + one_of_list(table.columns)));
    return std::nullopt;
  }

  std::vector<std::size_t> columns(const JsonValue& list) {
    std::vector<std::size_t> found;
    if (!list.is_array() || list.array().empty()) {
      needed(list, "a list of columns");
      return found;
    }
    for (const JsonValue& name : list.array()) {
      if (const std::optional<std::size_t> one = column(name)) found.push_back(*one);
    }
    return found;
  }

  // The cause of a refusal that the table could remove; empty if none is named.
  std::string needs(const JsonValue& refusal) {
    return refusal.find("needs") == nullptr ? std::string() : text(refusal, "needs");
  }

  // A value of a field, null (left out) or {"cannot": "why"}, perhaps with what it "needs".
  RowValue literal(const JsonValue& value) {
    if (std::holds_alternative<std::nullptr_t>(value.data)) return {};
    if (value.is_object()) {
      if (!has_keys(value, {"cannot", "needs"})) return {};
      return {RowValue::Kind::refused, text(value, "cannot"), needs(value)};
    }
    return {RowValue::Kind::given, written(value)};
  }

  RowConversion conversion(const JsonValue& value) {
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
      needed(*words, "an object of words");
    } else if (words != nullptr) {
      for (const JsonMember& word : words->object()) {
        conversion.words[word.key] = literal(word.value);
      }
    }
    if (const JsonValue* empty = value.find("empty")) conversion.empty = literal(*empty);
    return conversion;
  }

  std::vector<RowFactor> factors(const JsonValue& list) {
    std::vector<RowFactor> found;
    if (!list.is_array() || list.array().empty()) {
      needed(list, "a list of columns and numbers");
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

  void read_memory_kind(const JsonValue& root) {
    for (std::size_t i = 0; i < kNumQuantities; ++i) {
      mapping_->metrics.at(i) = kQuantities.at(i).metric;
    }
    const JsonValue* kind = root.find("memory_is");
    if (kind == nullptr) return;
    const std::string name = text(*kind);
    for (const MemoryKind& known : kMemoryKinds) {
      if (known.name != name) continue;
      mapping_->metrics.at(kPeakMemory) = known.metric;
      return;
    }
    problem(
        "E0926", kind->span,
        R"("memory_is" is "tensors", "allocated", "allocated_last_stage", "reserved" or "device")");
  }
  void read_head(const JsonValue& root) {
    mapping_->title = text(root, "title");
    mapping_->assuming = text(root, "assuming");
    if (const JsonValue* trust = required(root, "trust")) {
      mapping_->trust = text(*trust);
      const bool known =
          mapping_->trust.size() == 1 && mapping_->trust[0] >= 'A' && mapping_->trust[0] <= 'D';
      if (!known) {
        problem("E0926", trust->span, R"("trust" is "A", "B", "C" or "D")");
      }
    }
    read_memory_kind(root);
    if (const JsonValue* stride = root.find("sample_stride")) {
      const auto* whole = std::get_if<std::int64_t>(&stride->data);
      if (whole == nullptr || *whole < 1) {
        needed(*stride, "a whole number from 1");
      } else {
        mapping_->sample_stride = *whole;
      }
    }
  }

  void read_columns(const JsonValue& root) {
    mapping_->confirmed = needed_column(root, "confirmed");
    mapping_->source = needed_column(root, "source");
    if (const JsonValue* label = required(root, "label")) {
      mapping_->label = columns(*label);
    }
    if (const JsonValue* by = root.find("by")) mapping_->by = columns(*by);
  }

  void read_measured(const JsonValue& root) {
    const JsonValue* measured = required(root, "measured");
    if (measured == nullptr) return;
    if (!has_keys(*measured, {kQuantities[0].key.data(), kQuantities[1].key.data()})) {
      return;
    }
    bool any = false;
    for (std::size_t i = 0; i < kNumQuantities; ++i) {
      const JsonValue* value = measured->find(std::string(kQuantities[i].key));
      if (value == nullptr) continue;
      any = true;
      mapping_->measured[i] = conversion(*value);
    }
    if (!any) problem("E0926", measured->span, "no measured value is named");
  }

  void read_fields(const JsonValue& root) {
    const JsonValue* fields = required(root, "fields");
    if (fields == nullptr || !is_object(*fields)) return;
    for (const JsonMember& member : fields->object()) {
      check_field(member);
      mapping_->fields.emplace_back(member.key, conversion(member.value));
    }
  }

  void read_exceptions(const JsonValue& root) {
    const JsonValue* rows = root.find("rows");
    if (rows == nullptr) return;
    if (!rows->is_array()) {
      needed(*rows, "a list");
      return;
    }
    for (const JsonValue& value : rows->array()) {
      if (has_keys(value, {"where", "set", "cannot", "needs", "apart"})) read_exception(value);
    }
  }

 private:
  void check_field(const JsonMember& member) {
    if (find_field(member.key) != nullptr) return;  // Or the place where a preset is named.
    std::vector<std::string> paths;
    for (const Field& field : field_table()) paths.push_back(field.path);
    problem("E0928", member.key_span, "a scenario has no field \"" + printable(member.key) + "\"",
            help_for(member.key, paths, "docs/guide/scenario-reference.md lists them"));
  }

  std::size_t needed_column(const JsonValue& root, const std::string& name) {
    const std::size_t found = mapping_->table.find_column(name);
    if (found == MeasurementTable::kNoColumn) {
      problem("E0927", root.find("table")->span,
              fmt::format("{} has no column \"{}\"", mapping_->table.source->name, name),
              "every table says where a row is from and whether that was looked up: "
              "\"source\", and \"confirmed\" with yes or no");
    }
    return found;
  }

  void read_exception(const JsonValue& value) {
    RowException exception;
    const JsonValue* where = required(value, "where");
    if (where != nullptr && where->is_object() && !where->object().empty()) {
      for (const JsonMember& cell : where->object()) {
        const std::optional<std::size_t> found = column({cell.key, cell.key_span});
        if (!cell.value.is_string()) {
          needed(cell.value, "cells are texts: a text");
        } else if (found) {
          exception.where.emplace_back(*found, cell.value.string());
        }
      }
    } else if (where != nullptr) {
      problem("E0926", where->span, "columns with their cells are needed here");
    }
    if (const JsonValue* set = value.find("set")) read_set(*set, exception);
    if (value.find("cannot") != nullptr) exception.cannot = text(value, "cannot");
    exception.needs = needs(value);
    if (exception.cannot.empty() && !exception.needs.empty()) {
      problem("E0926", value.find("needs")->span, "\"needs\" stands beside \"cannot\"");
    }
    if (value.find("apart") != nullptr) exception.apart = text(value, "apart");
    mapping_->exceptions.push_back(std::move(exception));
  }

  void read_set(const JsonValue& set, RowException& exception) {
    if (!is_object(set)) return;
    for (const JsonMember& member : set.object()) {
      check_field(member);
      exception.set.emplace_back(member.key, literal(member.value));
    }
  }

  TableMapping* mapping_;
  ProblemList* problems_;
};

}  // namespace

TableMapping read_table_mapping(const std::string& path) {
  TableMapping mapping;
  mapping.path = path;
  mapping.name = std::filesystem::path(path).stem().string();
  mapping.text = std::make_shared<const SourceText>(
      SourceText{path, read_regular_file(path, JsonLimits{}.max_bytes)});
  ProblemList problems;
  const std::optional<JsonValue> root = parse_json(*mapping.text, problems);
  problems.throw_if_any();
  TableMappingReader reader(mapping, problems);
  reader.has_keys(*root, {"title", "table", "trust", "assuming", "sample_stride", "label", "by",
                          "memory_is", "measured", "scenario", "fields", "rows"});
  problems.throw_if_any();
  const std::string table = reader.text(*root, "table");
  problems.throw_if_any();
  mapping.table =
      read_measurement_table((std::filesystem::path(path).parent_path() / table).string());
  reader.read_head(*root);
  reader.read_columns(*root);
  reader.read_measured(*root);
  reader.read_fields(*root);
  reader.read_exceptions(*root);
  if (const JsonValue* scenario = reader.required(*root, "scenario")) {
    mapping.scenario_text = blanked_around(mapping.text->text, scenario->span);
  }
  problems.throw_if_any();
  for (const auto& [field, conversion] : mapping.fields) {
    report_unknown_words(conversion, mapping.table, problems);
  }
  for (const std::optional<RowConversion>& conversion : mapping.measured) {
    if (conversion) report_unknown_words(*conversion, mapping.table, problems);
  }
  problems.throw_if_any();
  return mapping;
}

}  // namespace shardsim
