#include "sim/run/decision_file.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/kernel/hash.hpp"

#include "strategies/pipeline/schedule_csv.hpp"
#include "strategies/training/train.hpp"

#include "sim/run/expert_tokens.hpp"

namespace shardsim {

namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const DecisionLog::Answers& answers) {
  std::string text;
  for (const bool answer : answers) text += answer ? '1' : '0';
  return text;
}

}  // namespace

// All that values of the training depend on. Files of the scenario count by their content, not by
// their name. The machine is left out, and so are execution settings that only affect time or
// whether there are values.
std::string training_of(const Experiment& experiment) {
  const Scenario& scenario = experiment.scenario();
  const Json resolved = Json::parse(scenario.resolved_json);
  Json kept;
  for (const char* section : {"model", "parallelism", "training"}) {
    kept[section] = resolved.at(section);
  }
  for (const char* field : {"steps", "seed", "reduction_order"}) {
    kept["execution"][field] = resolved.at("execution").at(field);
  }
  if (!scenario.model.moe_popularity.empty()) {
    kept["model"]["moe_popularity_file"] = scenario.model.moe_popularity;
  }
  if (scenario.own_schedule != nullptr) {
    kept["parallelism"]["schedule_file"] = to_csv(*scenario.own_schedule);
  }
  return fmt::format("{:016x}", hash_text(kept.dump()));
}

std::string to_text(const DecisionLog& decisions, const Experiment& experiment) {
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
  for (const auto& [name, of_ranks] : decisions.all_numbers()) {
    for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
      if (of_ranks[rank].empty()) continue;
      rows.push_back({{"name", name}, {"ranks", {rank, rank}}, {"numbers", of_ranks[rank]}});
    }
  }
  const bool has_numbers = ExpertTokens::are_decided(experiment);
  const Json file = {{"format", kDecisionFormat},
                     {"version", has_numbers ? kExpertDecisionVersion : kDecisionVersion},
                     {"ranks", decisions.num_ranks()},
                     {"training", training_of(experiment)},
                     {"decisions", rows}};
  return file.dump(2) + "\n";
}

std::string hash_of(const DecisionLog& decisions, const Experiment& experiment) {
  return fmt::format("{:016x}", hash_text(to_text(decisions, experiment)));
}

Assumptions replayed_assumptions(const DecisionLog& record, const Experiment& experiment) {
  constexpr const char* kSource =
      "--replay-decisions: a run of the same training with real tensors";
  const std::string hash = hash_of(record, experiment);
  Assumptions assumptions;
  if (ExpertTokens::are_decided(experiment)) {
    assumptions.push_back({"Tokens go to experts as in record " + hash, kSource});
    const TrainingSpec& training = experiment.scenario().training;
    if (training.loss_scaling == LossScaling::Mode::none) return assumptions;
  }
  const DecisionLog::Answers& skips = record.of(0, kSkipStep);  // All ranks answer alike.
  const auto skipped = std::count(skips.begin(), skips.end(), true);
  assumptions.push_back({fmt::format("decisions are replayed: {} step{} skipped, record {}",
                                     skipped, skipped == 1 ? "" : "s", hash),
                         kSource});
  return assumptions;
}

}  // namespace shardsim
