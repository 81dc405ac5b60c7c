#include "sim/accuracy/ratchet.hpp"

#include <cmath>

#include <fmt/format.h>

#include "scenarios/json_value.hpp"
#include "scenarios/read_file.hpp"
#include "scenarios/scenario_error.hpp"

namespace shardsim {

namespace {

[[noreturn]] void fail_ratchet(const Span& span, const std::string& message) {
  throw_problem("E0930", span, message,
                "write the file again with --write-ratchet, and say in the commit why");
}

const JsonObject& object_of(const JsonValue& value) {
  if (!value.is_object())
    fail_ratchet(value.span, "an object is needed here, not " + describe(value));
  return value.object();
}

RatchetFigure figure_of(const JsonValue& value) {
  RatchetFigure figure;
  object_of(value);
  const JsonValue* rows = value.find("rows");
  const JsonValue* error = value.find("mean_absolute_error");
  const auto* count = rows == nullptr ? nullptr : std::get_if<std::int64_t>(&rows->data);
  const auto* mean = error == nullptr ? nullptr : std::get_if<double>(&error->data);
  if (count == nullptr || mean == nullptr || *count < 1 || value.object().size() != 2) {
    fail_ratchet(value.span, R"(a figure is {"rows": whole number, "mean_absolute_error": 0.0})");
  }
  figure.rows = static_cast<std::size_t>(*count);
  figure.mean_absolute_error = *mean;
  return figure;
}

const char* scope_of(bool sample) { return sample ? "sample" : "whole"; }

double rounded_up(double value) { return std::ceil(value * 1e6) / 1e6; }

// By the quantity's key.
using TableFigures = std::map<std::string, RatchetFigure>;

TableFigures table_figures_of(const ValidatedTable& table) {
  TableFigures figures;
  for (std::size_t i = 0; i < kNumQuantities; ++i) {
    const std::optional<QuantityFigures> now = figures_of({&table, 1}, i, true);
    if (!now) continue;
    figures[std::string(kQuantities.at(i).key)] = {now->errors.rows, now->errors.mean_absolute};
  }
  return figures;
}

void compare(const RatchetFigure& before, const RatchetFigure& now, const std::string& what,
             std::vector<std::string>& worse) {
  if (now.rows < before.rows) {
    worse.push_back(fmt::format("{}: {} rows are compared, {} were", what, now.rows, before.rows));
  }
  if (now.mean_absolute_error > before.mean_absolute_error) {
    worse.push_back(fmt::format("{}: mean absolute error {:.4f} %, at most {:.4f} % is allowed",
                                what, 100.0 * now.mean_absolute_error,
                                100.0 * before.mean_absolute_error));
  }
}

// The entry of `map` for `key`, or an empty one.
template <class Value>
Value value_or_empty(const std::map<std::string, Value>& map, const std::string& key) {
  const auto found = map.find(key);
  return found == map.end() ? Value() : found->second;
}

}  // namespace

RatchetFigures read_ratchet(const std::string& path) {
  const SourceText source{path, read_regular_file(path, JsonLimits{}.max_bytes)};
  ProblemList problems;
  const std::optional<JsonValue> root = parse_json(source, problems);
  problems.throw_if_any();
  RatchetFigures figures;
  for (const JsonMember& scope : object_of(*root)) {
    if (scope.key != "whole" && scope.key != "sample") {
      fail_ratchet(scope.key_span, R"(keys are "whole" and "sample")");
    }
    for (const JsonMember& table : object_of(scope.value)) {
      for (const JsonMember& quantity : object_of(table.value)) {
        figures[scope.key][table.key][quantity.key] = figure_of(quantity.value);
      }
    }
  }
  return figures;
}

std::string ratchet_text(const RatchetFigures& figures) {
  std::string text =
      "// Figures of `shardsim validate` that may not become worse. Written by --write-ratchet;\n"
      "// docs/guide/validation.md says when.\n{";
  const char* scope_comma = "";
  for (const auto& [scope, tables] : figures) {
    text += fmt::format("{}\n  \"{}\": {{", scope_comma, scope);
    scope_comma = ",";
    const char* table_comma = "";
    for (const auto& [table, quantities] : tables) {
      text += fmt::format("{}\n    \"{}\": {{", table_comma, table);
      table_comma = ",";
      const char* comma = "";
      for (const auto& [quantity, figure] : quantities) {
        text += fmt::format("{}\n      \"{}\": {{\"rows\": {}, \"mean_absolute_error\": {:.6f}}}",
                            comma, quantity, figure.rows, rounded_up(figure.mean_absolute_error));
        comma = ",";
      }
      text += "\n    }";
    }
    text += "\n  }";
  }
  return text + "\n}\n";
}

void set_figures(RatchetFigures& figures, bool sample, const std::vector<ValidatedTable>& tables) {
  for (const ValidatedTable& table : tables) {
    TableFigures now = table_figures_of(table);
    if (now.empty()) {
      figures[scope_of(sample)].erase(table.name);
    } else {
      figures[scope_of(sample)][table.name] = std::move(now);
    }
  }
}

std::vector<std::string> became_worse(const RatchetFigures& figures, bool sample,
                                      const std::vector<ValidatedTable>& tables) {
  std::vector<std::string> worse;
  for (const ValidatedTable& table : tables) {
    const TableFigures before =
        value_or_empty(value_or_empty(figures, scope_of(sample)), table.name);
    const TableFigures now = table_figures_of(table);
    for (const QuantityInfo& quantity : kQuantities) {
      const std::string key(quantity.key);
      const std::string what = fmt::format("{}, {}", table.name, quantity.title);
      const bool known = before.count(key) > 0;
      if (known && now.count(key) > 0) {
        compare(before.at(key), now.at(key), what, worse);
      } else if (known) {
        worse.push_back(what + ": no row is compared any more");
      } else if (now.count(key) > 0) {
        worse.push_back(what + ": the ratchet has no figure for it");
      }
    }
  }
  return worse;
}

}  // namespace shardsim
