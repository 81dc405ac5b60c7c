#include "sim/accuracy/table_mapping.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "scenarios/field.hpp"
#include "scenarios/json_value.hpp"
#include "scenarios/read_file.hpp"
#include "scenarios/scenario_error.hpp"
#include "scenarios/suggest.hpp"
#include "sim/accuracy/mapping_reader.hpp"

namespace shardsim {

namespace {

std::string blanked_around(const std::string& text, const Span& kept) {
  std::string blank = text;
  for (std::size_t i = 0; i < blank.size(); ++i) {
    const bool inside = i >= kept.offset && i < kept.offset + kept.length;
    if (!inside && blank[i] != '\n') blank[i] = ' ';
  }
  return blank;
}

void check_field(MappingReader& reader, const JsonMember& member) {
  if (find_field(member.key) != nullptr) return;  // Or the place where a preset is named.
  std::vector<std::string> paths;
  for (const Field& field : field_table()) paths.push_back(field.path);
  const std::string near = nearest(member.key, paths);
  reader.problem(
      "E0928", member.key_span, "a scenario has no field \"" + printable(member.key) + "\"",
      near.empty() ? "docs/guide/scenario-reference.md lists them" : "write \"" + near + "\"");
}

class TableMappingReader {
 public:
  TableMappingReader(TableMapping& mapping, MappingReader& reader)
      : mapping_(&mapping), reader_(&reader) {}

  void read_memory_kind(const JsonValue& root) {
    for (std::size_t i = 0; i < kNumQuantities; ++i) {
      mapping_->metrics.at(i) = kQuantities.at(i).metric;
    }
    const JsonValue* kind = root.find("memory_is");
    if (kind == nullptr) return;
    const std::string name = reader_->text(*kind);
    for (const MemoryKind& known : kMemoryKinds) {
      if (known.name != name) continue;
      mapping_->metrics.at(kPeakMemory) = known.metric;
      return;
    }
    reader_->problem(
        "E0926", kind->span,
        R"("memory_is" is "tensors", "allocated", "allocated_last_stage", "reserved" or "device")");
  }
  void read_head(const JsonValue& root) {
    mapping_->title = reader_->text(root, "title");
    mapping_->assuming = reader_->text(root, "assuming");
    if (const JsonValue* trust = reader_->required(root, "trust")) {
      mapping_->trust = reader_->text(*trust);
      const bool known =
          mapping_->trust.size() == 1 && mapping_->trust[0] >= 'A' && mapping_->trust[0] <= 'D';
      if (!known) {
        reader_->problem("E0926", trust->span, R"("trust" is "A", "B", "C" or "D")");
      }
    }
    read_memory_kind(root);
    if (const JsonValue* stride = root.find("sample_stride")) {
      const auto* whole = std::get_if<std::int64_t>(&stride->data);
      if (whole == nullptr || *whole < 1) {
        reader_->problem("E0926", stride->span,
                         "a whole number from 1 is needed here, not " + describe(*stride));
      } else {
        mapping_->sample_stride = *whole;
      }
    }
  }

  void read_columns(const JsonValue& root) {
    mapping_->confirmed = needed_column(root, "confirmed");
    mapping_->source = needed_column(root, "source");
    if (const JsonValue* label = reader_->required(root, "label")) {
      mapping_->label = reader_->columns(*label);
    }
  }

  void read_measured(const JsonValue& root) {
    const JsonValue* measured = reader_->required(root, "measured");
    if (measured == nullptr) return;
    if (!reader_->has_keys(*measured, {kQuantities[0].key.data(), kQuantities[1].key.data()})) {
      return;
    }
    bool any = false;
    for (std::size_t i = 0; i < kNumQuantities; ++i) {
      const JsonValue* value = measured->find(std::string(kQuantities[i].key));
      if (value == nullptr) continue;
      any = true;
      mapping_->measured[i] = reader_->conversion(*value);
    }
    if (!any) reader_->problem("E0926", measured->span, "nothing that was measured is named");
  }

  void read_fields(const JsonValue& root) {
    const JsonValue* fields = reader_->required(root, "fields");
    if (fields == nullptr) return;
    if (!fields->is_object()) {
      reader_->problem("E0926", fields->span, "an object is needed here, not " + describe(*fields));
      return;
    }
    for (const JsonMember& member : fields->object()) {
      check_field(*reader_, member);
      mapping_->fields.emplace_back(member.key, reader_->conversion(member.value));
    }
  }

  void read_exceptions(const JsonValue& root) {
    const JsonValue* rows = root.find("rows");
    if (rows == nullptr) return;
    if (!rows->is_array()) {
      reader_->problem("E0926", rows->span, "a list is needed here, not " + describe(*rows));
      return;
    }
    for (const JsonValue& value : rows->array()) {
      if (reader_->has_keys(value, {"where", "set", "cannot", "apart"})) read_exception(value);
    }
  }

 private:
  std::size_t needed_column(const JsonValue& root, const std::string& name) {
    const std::size_t found = mapping_->table.find_column(name);
    if (found == MeasurementTable::kNoColumn) {
      reader_->problem("E0927", root.find("table")->span,
                       fmt::format("{} has no column \"{}\"", mapping_->table.source->name, name),
                       "every table says where a row is from and whether that was looked up: "
                       "\"source\", and \"confirmed\" with yes or no");
    }
    return found;
  }

  void read_exception(const JsonValue& value) {
    RowException exception;
    const JsonValue* where = reader_->required(value, "where");
    if (where != nullptr && where->is_object() && !where->object().empty()) {
      for (const JsonMember& cell : where->object()) {
        const JsonValue name{cell.key, cell.key_span};
        const std::optional<std::size_t> column = reader_->column(name);
        if (!cell.value.is_string()) {
          reader_->problem("E0926", cell.value.span,
                           "cells are texts: a text is needed here, not " + describe(cell.value));
        } else if (column) {
          exception.where.emplace_back(*column, cell.value.string());
        }
      }
    } else if (where != nullptr) {
      reader_->problem("E0926", where->span, "columns with their cells are needed here");
    }
    if (const JsonValue* set = value.find("set")) read_set(*set, exception);
    if (value.find("cannot") != nullptr) exception.cannot = reader_->text(value, "cannot");
    if (value.find("apart") != nullptr) exception.apart = reader_->text(value, "apart");
    mapping_->exceptions.push_back(std::move(exception));
  }

  void read_set(const JsonValue& set, RowException& exception) {
    if (!set.is_object()) {
      reader_->problem("E0926", set.span, "an object is needed here, not " + describe(set));
      return;
    }
    for (const JsonMember& member : set.object()) {
      check_field(*reader_, member);
      exception.set.emplace_back(member.key, reader_->literal(member.value));
    }
  }

  TableMapping* mapping_;
  MappingReader* reader_;
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
  MappingReader reader(problems);
  reader.has_keys(*root, {"title", "table", "trust", "assuming", "sample_stride", "label",
                          "memory_is", "measured", "scenario", "fields", "rows"});
  problems.throw_if_any();
  const std::string table = reader.text(*root, "table");
  problems.throw_if_any();
  mapping.table =
      read_measurement_table((std::filesystem::path(path).parent_path() / table).string());
  reader.use_table(mapping.table);
  TableMappingReader parts(mapping, reader);
  parts.read_head(*root);
  parts.read_columns(*root);
  parts.read_measured(*root);
  parts.read_fields(*root);
  parts.read_exceptions(*root);
  if (const JsonValue* scenario = reader.required(*root, "scenario")) {
    mapping.scenario_text = blanked_around(mapping.text->text, scenario->span);
  }
  problems.throw_if_any();
  return mapping;
}

}  // namespace shardsim
