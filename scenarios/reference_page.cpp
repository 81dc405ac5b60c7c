#include "sim/kernel/metric_table.hpp"

#include "scenarios/describe.hpp"
#include "scenarios/reading.hpp"
#include "scenarios/suggest.hpp"

namespace shardsim {
namespace {

constexpr const char* kOpening = R"(# Scenario reference

This page is generated from the field table; `shardsim schema` prints the same as a JSON Schema.

A scenario is JSON. Comments (`//` and `/* */`) are allowed; unknown keys, keys that stand twice and
values out of range are errors. Units are part of the names: GB is 10^9 bytes, GiB is 2^30 bytes.

What a preset says is overridden by the file, and the file by `--set a.b=value`. Any number of
`model` and `system` may be written with its origin: `{"value": 450, "source": "where from"}`.

A field that is written although it does not act (column "acts when"; empty: always) is a warning.

A block `sweep` beside these sections is for `shardsim sweep` ([sweep.md](sweep.md)); other verbs
check it and leave it out.
)";

std::string bound(double value) {
  // Powers of two read better as such.
  for (int power = 14; power <= 53; ++power) {
    if (value == static_cast<double>(std::int64_t{1} << power)) {
      return "2^" + std::to_string(power);
    }
  }
  return number_text(value);
}

std::string values_of(const Field& field) {
  const NumberRange& range = field.limits;
  const std::string numbers = (range.above_min ? "above " : "from ") + bound(range.min) +
                              (range.below_max ? " to below " : " to ") + bound(range.max);
  std::string text;
  switch (field.type) {
    case FieldType::boolean:
      text = "`true`, `false`";
      break;
    case FieldType::integer:
      text = range.min == range.max ? "`" + bound(range.min) + "`" : "whole, " + numbers;
      break;
    case FieldType::number:
      text = range.max > 1e100 ? "number" : "number, " + numbers;
      break;
    case FieldType::text:
      text = "text";
      break;
    case FieldType::choice:
      for (const std::string& choice : field.choices) {
        text += (text.empty() ? "`" : ", `") + choice + "`";
      }
      break;
    case FieldType::rank_list:
      text = "list of ranks";
      break;
    case FieldType::integer_list:
      text = "list of whole numbers, " + numbers;
      break;
  }
  return field.takes_auto ? text + ", or `\"auto\"`" : text;
}

std::string default_words_of(const Field& field) {
  if (field.is_required) {
    return "required";
  }
  if (!field.derived_words.empty()) {
    return field.derived_words;
  }
  if (field.default_json.empty()) {
    return "";
  }
  return "`" + field.default_json + "`";
}

std::string notes_of(const Field& field) {
  std::string text = field.meaning;
  if (!field.missing_part.empty()) {
    text += field.served.empty() ? " Any other value is refused"
                                 : " Only " + one_of_list(field.served) + " are served";
    text += " until " + field.missing_part + " is built.";
  }
  if (!field.foreign_names.empty()) {
    text += " Elsewhere: ";
    for (std::size_t i = 0; i < field.foreign_names.size(); ++i) {
      const ForeignName& foreign = field.foreign_names[i];
      text += (i == 0 ? "`" : ", `") + foreign.name + "` (" + foreign.tool + ")";
    }
    text += ".";
  }
  return text;
}

}  // namespace

std::string scenario_reference() {
  std::string page = kOpening;
  for (const Section& section : section_table()) {
    const std::string inside = section.is_list ? section.path + "[]" : section.path;
    page +=
        "\n## " + (section.path.empty() ? "The document" : "`" + inside + "`") + "\n\n" +
        section.meaning +
        "\n\n| key | values | unit | default | acts when | meaning |\n|---|---|---|---|---|---|\n";
    for (const Field& field : field_table()) {
      if (parent_path(field.path) == inside) {
        page += "| `" + last_key(field.path) + "` | " + values_of(field) + " | " + field.units +
                " | " + default_words_of(field) + " | " + field.acts_words + " | " +
                notes_of(field) + " |\n";
      }
    }
  }
  page += "\n## Metrics that `expect` may name\n\n";
  for (const std::string& metric : metrics_to_expect()) {
    page += "- `" + metric + "`" + (is_oracle_metric(metric) ? " (real tensors)" : "") + "\n";
  }
  return page;
}

}  // namespace shardsim
