#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>

#include <fmt/format.h>

#include "reports/units.hpp"
#include "scenarios/source_text.hpp"
#include "sim/diff/comparison.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kShownFields = 12;
constexpr std::size_t kShownAssumptions = 4;
constexpr std::size_t kWidth = 100;

using Format = std::function<std::string(double amount)>;

std::string cut(std::string text, std::size_t width) {
  if (text.size() > width) text = text.substr(0, width - 3) + "...";
  return text;
}

std::string line_of(const DiffRow& row, const std::string& indent, const Format& format) {
  const auto difference = static_cast<double>(row.difference());
  std::string share;
  if (row.a != 0) {
    share = fmt::format("{:+.1f} %", 100.0 * difference / static_cast<double>(row.a));
  }
  const std::string change =
      difference == 0.0 ? "=" : (difference < 0.0 ? "-" : "+") + format(std::abs(difference));
  return fmt::format("{:<20} {:>12} {:>12} {:>13} {:>10}\n", indent + row.name,
                     format(static_cast<double>(row.a)), format(static_cast<double>(row.b)), change,
                     share);
}

std::string table_text(const DiffTable& table, const Format& format) {
  std::string text = line_of(table.total, "", format);
  for (const DiffRow& row : table.rows) text += line_of(row, "  ", format);
  return text;
}

std::string side_text(char letter, const RunSide& side) {
  return cut(fmt::format("{}  {}   {}", letter, printable(side.file, 200),
                         printable(side.what, 200)),
             kWidth) +
         "\n";
}

std::string fields_text(const std::vector<FieldChange>& fields) {
  if (fields.empty()) return "";
  std::string text = fmt::format("\nscenario: {} field{} differ{}\n", fields.size(),
                                 fields.size() == 1 ? "" : "s", fields.size() == 1 ? "s" : "");
  for (std::size_t i = 0; i < std::min(kShownFields, fields.size()); ++i) {
    const FieldChange& change = fields[i];
    text += cut(fmt::format("  {:<44} {} -> {}", printable(change.path, kWidth),
                            change.a.empty() ? "none" : printable(change.a, kWidth),
                            change.b.empty() ? "none" : printable(change.b, kWidth)),
                kWidth) +
            "\n";
  }
  if (fields.size() > kShownFields) {
    text += fmt::format("  and {} more (--json has all)\n", fields.size() - kShownFields);
  }
  return text;
}

std::string assumptions_text(const RunComparison& comparison) {
  if (comparison.only_in_a.empty() && comparison.only_in_b.empty()) return "";
  std::string text = fmt::format("\nassumptions: {} only in A, {} only in B\n",
                                 comparison.only_in_a.size(), comparison.only_in_b.size());
  for (const auto& [mark, list] :
       {std::pair('A', &comparison.only_in_a), std::pair('B', &comparison.only_in_b)}) {
    for (std::size_t i = 0; i < std::min(kShownAssumptions, list->size()); ++i) {
      text += cut(fmt::format("  {} {}", mark, (*list)[i]), kWidth) + "\n";
    }
    if (list->size() > kShownAssumptions) {
      text += fmt::format("  {} and {} more (--json has all)\n", mark,
                          list->size() - kShownAssumptions);
    }
  }
  return text;
}

std::string notes_text(const RunComparison& comparison) {
  std::string text;
  for (const RunSide* side : {&comparison.a, &comparison.b}) {
    for (const std::string& note : side->notes) text += "note: " + note + "\n";
  }
  const bool other = comparison.memory &&
                     std::any_of(comparison.memory->rows.begin(), comparison.memory->rows.end(),
                                 [](const DiffRow& row) { return row.name == kOtherPart; });
  if (other) {
    text +=
        "note: memory is the largest of all ranks for each category; \"other\" corrects for "
        "the fullest rank\n";
  }
  return text.empty() ? "" : "\n" + text;
}

}  // namespace

std::string diff_text(const RunComparison& comparison) {
  const Format time = [](double ps) { return format_seconds(seconds_of(std::llround(ps))); };
  const Format memory = [](double bytes) {
    return bytes < 0.0 ? "-" + format_memory(-bytes) : format_memory(bytes);
  };
  std::string text = side_text('A', comparison.a) + side_text('B', comparison.b) + "\n";
  text += fmt::format("{:<20} {:>12} {:>12} {:>13}\n", "", "A", "B", "difference");
  text += table_text(comparison.time, time) + outcomes_text(comparison.outcomes);
  if (comparison.memory) text += "\n" + table_text(*comparison.memory, memory);
  if (!comparison.traffic.empty()) {
    text += "\ntraffic, all ranks\n";
    for (const DiffRow& row : comparison.traffic) text += line_of(row, "  ", format_traffic);
  }
  text += fields_text(comparison.fields) + assumptions_text(comparison) + notes_text(comparison);
  return text + "\n" + sentence_of(comparison) + "\n";
}

}  // namespace shardsim
