#include "sim/accuracy/missing_columns.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>

#include <fmt/format.h>

#include "scenarios/missing_field.hpp"
#include "scenarios/scenario_error.hpp"
#include "scenarios/source_text.hpp"

namespace shardsim {

namespace {

// "model.num_layers" for "/model/num_layers".
std::string field_path(const std::string& pointer) {
  std::string path = pointer.substr(std::min<std::size_t>(1, pointer.size()));
  std::ranges::replace(path, '/', '.');
  return path;
}

}  // namespace

std::vector<MissingColumns> missing_columns(const ValidatedTable& table) {
  std::vector<MissingColumns> found;
  for (const ValidatedRow& row : table.rows) {
    if (row.needs.empty()) continue;
    auto same = std::ranges::find(found, row.needs, &MissingColumns::needs);
    if (same == found.end()) same = found.insert(found.end(), {row.needs, {}});
    same->lines.push_back(row.line);
  }
  std::ranges::stable_sort(found, std::greater<>(),
                           [](const MissingColumns& each) { return each.lines.size(); });
  return found;
}

std::vector<std::string> missing_fields(const Error& error) {
  const auto* scenario = dynamic_cast<const ScenarioError*>(&error);
  if (scenario == nullptr || scenario->num_dropped() > 0) return {};
  std::vector<std::string> fields;
  for (const Problem& problem : scenario->problems()) {
    if (problem.code != kMissingFieldCode) return {};
    fields.push_back(field_path(problem.pointer));
  }
  return fields;
}

std::string missing_columns_text(const ValidatedTable& table) {
  std::string text;
  for (const MissingColumns& missing : missing_columns(table)) {
    text += fmt::format("  {}{} would unlock {} row{}\n",
                        printable(fmt::format("{}", fmt::join(missing.needs, ", ")), 200),
                        missing.needs.size() == 1 ? "" : " together", missing.lines.size(),
                        missing.lines.size() == 1 ? "" : "s");
  }
  return text;
}

}  // namespace shardsim
