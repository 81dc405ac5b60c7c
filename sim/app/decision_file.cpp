#include "sim/app/decision_file.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/kernel/error.hpp"
#include "sim/kernel/hash.hpp"

namespace shardsim {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "shardsim-decisions";
constexpr int kVersion = 1;

// What a value of the training depends on. Left out are the machine, and the settings of execution
// that only decide on time or on whether there are values.
std::string training_of(const Scenario& scenario) {
  const Json resolved = Json::parse(scenario.resolved_json);
  Json kept;
  for (const char* section : {"model", "parallelism", "training"}) {
    kept[section] = resolved.at(section);
  }
  for (const char* field : {"steps", "seed", "reduction_order"}) {
    kept["execution"][field] = resolved.at("execution").at(field);
  }
  return fmt::format("{:016x}", hash_text(kept.dump()));
}

std::string text_of(const DecisionLog::Answers& answers) {
  std::string text;
  for (const bool answer : answers) text += answer ? '1' : '0';
  return text;
}

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw UsageError("E0909", "\"" + path + "\" is no record of decisions: " + what,
                   "give a file that --record-decisions wrote");
}

[[noreturn]] void refuse_other(const std::string& path, const std::string& what) {
  throw UsageError("E0908", "the record \"" + path + "\" is " + what,
                   "record the scenario again with execution.tensors \"real\" and "
                   "--record-decisions, and change nothing but the machine");
}

// One row: the same answers of some ranks.
void read_row(const Json& row, const std::string& path, std::int64_t steps, DecisionLog& log) {
  const auto name = row.at("name").get<std::string>();
  const auto answers = row.at("answers").get<std::string>();
  const auto first = row.at("ranks").at(0).get<std::int64_t>();
  const auto last = row.at("ranks").at(1).get<std::int64_t>();
  if (first < 0 || last < first || last >= log.num_ranks()) {
    refuse(path, fmt::format("decisions of ranks {} to {}", first, last));
  }
  if (answers.find_first_not_of("01") != std::string::npos) {
    refuse(path, "answers are texts of 0 and 1");
  }
  // Every decision of a training is taken once in a step.
  if (static_cast<std::int64_t>(answers.size()) > steps) {
    refuse(path, fmt::format("{} decisions \"{}\" in {} steps", answers.size(), name, steps));
  }
  for (std::int64_t rank = first; rank <= last; ++rank) {
    if (!log.of(static_cast<int>(rank), name).empty()) {
      refuse(path, fmt::format("two rows \"{}\" of rank {}", name, rank));
    }
    for (const char answer : answers) log.add(static_cast<int>(rank), name, answer == '1');
  }
}

}  // namespace

std::string to_text(const DecisionLog& decisions, const Scenario& scenario) {
  Json rows = Json::array();
  for (const auto& [name, of_ranks] : decisions.all()) {
    for (std::size_t rank = 0; rank < of_ranks.size();) {
      const std::size_t first = rank;
      while (rank < of_ranks.size() && of_ranks[rank] == of_ranks[first]) ++rank;
      if (of_ranks[first].empty()) continue;
      rows.push_back(
          {{"name", name}, {"ranks", {first, rank - 1}}, {"answers", text_of(of_ranks[first])}});
    }
  }
  const Json file = {{"format", kFormat},
                     {"version", kVersion},
                     {"ranks", decisions.num_ranks()},
                     {"training", training_of(scenario)},
                     {"decisions", rows}};
  return file.dump(2) + "\n";
}

DecisionLog parse_decisions(const std::string& text, const Scenario& scenario,
                            const std::string& path) {
  DecisionLog log(static_cast<int>(scenario.system.ranks));
  try {
    const Json file = Json::parse(text);
    if (file.at("format") != kFormat || file.at("version") != kVersion) {
      refuse(path, fmt::format("it must have format \"{}\" and version {}", kFormat, kVersion));
    }
    const auto ranks = file.at("ranks").get<std::int64_t>();
    if (ranks != scenario.system.ranks) {
      refuse_other(path, fmt::format("of {} ranks, this run has {}", ranks, scenario.system.ranks));
    }
    if (file.at("training") != training_of(scenario)) {
      refuse_other(path,
                   "of another training: model, parallelism, training, steps, seed or "
                   "reduction order differ");
    }
    for (const Json& row : file.at("decisions")) {
      read_row(row, path, scenario.execution.steps, log);
    }
  } catch (const Json::exception& error) {
    refuse(path, error.what());
  }
  return log;
}

}  // namespace shardsim
