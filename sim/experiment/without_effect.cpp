#include <algorithm>

#include "scenarios/field.hpp"
#include "sim/experiment/assumptions.hpp"

namespace shardsim {

namespace {

bool acts(const Field& field, const Scenario& scenario) {
  return !field.acts || field.acts(scenario);
}

// Whether somebody wrote the number with this mark: the slowest of a machine's links limits a ring.
bool is_stated(const Scenario& scenario, ReadMark mark) {
  const auto has = [&](const std::vector<std::string>& paths) {
    return mark != 0 && std::find(paths.begin(), paths.end(), field_of(mark).path) != paths.end();
  };
  return has(scenario.required) || has(scenario.chosen);
}

std::string words_of(const Field& field, std::optional<ReadMark> winner) {
  const std::string words = field.path + " has no effect here: ";
  if (!winner) return words + "this run does not use it";
  return words + "a stricter limit always applies" +
         (*winner == 0 ? "" : ": " + field_of(*winner).path);
}

}  // namespace

std::vector<std::string> fields_without_effect(const Scenario& scenario, const ReadLog& reads) {
  std::vector<std::string> warnings;
  for (const std::string& path : scenario.chosen) {
    const Field& field = *find_field(path);
    const ReadMark mark = mark_of(field);
    if (field.set_mark == nullptr || !acts(field, scenario) || reads.was_read(mark)) continue;
    warnings.push_back(words_of(field, reads.lost_to(mark)));
  }
  for (const std::string& path : scenario.required) {
    const Field& field = *find_field(path);
    const ReadMark mark = mark_of(field);
    const std::optional<ReadMark> winner = reads.lost_to(mark);
    if (!winner || reads.was_read(mark)) continue;
    if (!is_stated(scenario, *winner)) warnings.push_back(words_of(field, winner));
  }
  return warnings;
}

std::optional<Assumption> fields_of_values(const Scenario& scenario) {
  if (scenario.execution.tensors == TensorMode::real) return std::nullopt;
  std::string names;
  for (const std::string& path : scenario.chosen) {
    const Field& field = *find_field(path);
    if (!field.is_of_values || !acts(field, scenario)) continue;
    names += (names.empty() ? "" : ", ") + path;
  }
  if (names.empty()) return std::nullopt;
  return Assumption{std::string(kOnlyValues) + ", which a plan does not compute: " + names,
                    "execution.tensors is meta"};
}

}  // namespace shardsim
