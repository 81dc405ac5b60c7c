#include "sim/run/decision_file.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/kernel/hash.hpp"

#include "strategies/model/expert_layer.hpp"
#include "strategies/pipeline/schedule_csv.hpp"
#include "strategies/training/train.hpp"

#include "scenarios/json_value.hpp"
#include "scenarios/read_file.hpp"
#include "scenarios/scenario_error.hpp"
#include "scenarios/suggest.hpp"

namespace shardsim {

namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const DecisionLog::Answers& answers) {
  std::string text;
  for (const bool answer : answers) text += answer ? '1' : '0';
  return text;
}

// --- Reading -----------------------------------------------------------------------------------

// One row of answers for a million steps, the most that a scenario has, is 1 MB; the rest is for
// rows that were split and for white space.
constexpr JsonLimits kLimits = {.max_bytes = std::size_t{8} << 20U,
                                .max_depth = 4,
                                .max_string_bytes = std::size_t{1} << 20U,
                                .max_nodes = 32768};

// For experts' tokens: a row per rank, with a list for each decision.
JsonLimits limits_of(const Experiment& experiment) {
  JsonLimits limits = kLimits;
  if (!ExpertTokens::are_decided(experiment)) return limits;
  limits.max_bytes = std::size_t{256} << 20U;
  limits.max_depth = 6;
  limits.max_nodes = std::size_t{1} << 24U;
  return limits;
}

struct RankRange {
  std::size_t first = 0;
  std::size_t last = 0;
};

// Stops at the first problem: a record is written by a program.
class Reader {
 public:
  Reader(const SourceText& source, const Experiment& experiment)
      : source_(source),
        experiment_(experiment),
        scenario_(experiment.scenario()),
        log_(static_cast<int>(scenario_.system.ranks)) {}

  DecisionLog read() {
    ProblemList problems;
    const std::optional<JsonValue> file = parse_json(source_, problems, limits_of(experiment_));
    problems.throw_if_any();
    check_head(*file);
    const JsonValue& rows = member(*file, "", "decisions");
    if (!rows.is_array()) refuse(rows, "/decisions", "\"decisions\" must be a list");
    for (std::size_t row = 0; row < rows.array().size(); ++row) {
      read_row(rows.array()[row], pointer_to("/decisions", std::to_string(row)));
    }
    check_experts(rows);
    const bool acts = scenario_.training.loss_scaling != LossScaling::Mode::none;
    const auto missing = std::ranges::find(taken_, false);
    if (acts && missing != taken_.end()) {
      refuse(rows, "/decisions",
             fmt::format("no decisions \"{}\" of rank {}", kSkipStep, missing - taken_.begin()));
    }
    for (std::size_t rank = 0; acts && rank < taken_.size(); ++rank) {
      for (const char answer : answers_) log_.add(static_cast<int>(rank), kSkipStep, answer == '1');
    }
    return log_;
  }

 private:
  [[noreturn]] static void refuse(const JsonValue& value, const std::string& pointer,
                                  const std::string& message) {
    ProblemList problems;
    problems.add("E0909", value.span, pointer, "this is not a record of decisions: " + message,
                 "give a file as --record-decisions wrote it");
    throw ScenarioError(problems.problems(), 0);
  }

  [[noreturn]] static void refuse_other(const JsonValue& value, const std::string& pointer,
                                        const std::string& message) {
    ProblemList problems;
    problems.add("E0908", value.span, pointer, "the record is " + message,
                 "record the scenario again with execution.tensors \"real\" and "
                 "--record-decisions, and change nothing but the machine");
    throw ScenarioError(problems.problems(), 0);
  }

  static const JsonValue& member(const JsonValue& object, const std::string& pointer,
                                 const std::string& key) {
    const JsonValue* found = object.find(key);
    if (found == nullptr) refuse(object, pointer, "\"" + key + "\" is missing");
    return *found;
  }

  static void check_keys(const JsonValue& object, const std::string& pointer,
                         const std::vector<std::string>& known) {
    for (const JsonMember& member : object.object()) {
      if (std::ranges::find(known, member.key) != known.end()) continue;
      refuse({nullptr, member.key_span}, pointer_to(pointer, member.key),
             "the key \"" + printable(member.key, 40) + "\" is unknown, keys are " +
                 one_of_list(known));
    }
  }

  void check_head(const JsonValue& file) const {
    if (!file.is_object()) refuse(file, "", "it must be an object, not " + describe(file));
    const JsonValue& format = member(file, "", "format");
    if (!format.is_string() || format.string() != kDecisionFormat) {
      refuse(format, "/format", fmt::format("its format must be \"{}\"", kDecisionFormat));
    }
    const JsonValue& version = member(file, "", "version");
    const auto* number = std::get_if<std::int64_t>(&version.data);
    const int expected = decides_experts_ ? kExpertDecisionVersion : kDecisionVersion;
    if (number == nullptr || *number != expected) {
      refuse(version, "/version",
             fmt::format("its version must be {} for this scenario", expected));
    }
    check_keys(file, "", {"format", "version", "ranks", "training", "decisions"});
    const JsonValue& ranks = member(file, "", "ranks");
    const auto* count = std::get_if<std::int64_t>(&ranks.data);
    if (count == nullptr) refuse(ranks, "/ranks", "\"ranks\" must be a whole number");
    if (*count != scenario_.system.ranks) {
      refuse_other(ranks, "/ranks",
                   fmt::format("of {} ranks, this run has {}", *count, scenario_.system.ranks));
    }
    const JsonValue& training = member(file, "", "training");
    if (!training.is_string()) refuse(training, "/training", "\"training\" must be a string");
    if (training.string() != training_of(experiment_)) {
      refuse_other(training, "/training",
                   "of another training: model, parallelism, training, steps, seed or reduction "
                   "order differ");
    }
  }

  // Equal answers of some ranks.
  void read_row(const JsonValue& row, const std::string& pointer) {
    if (!row.is_object()) refuse(row, pointer, "a row must be an object, not " + describe(row));
    const JsonValue& name = member(row, pointer, "name");
    if (decides_experts_ && name.is_string() && name.string() == kExpertTokens) {
      return read_numbers_row(row, pointer);
    }
    check_keys(row, pointer, {"name", "ranks", "answers"});
    if (!name.is_string() || name.string() != kSkipStep) {
      refuse(name, pointer + "/name",
             fmt::format("this scenario decides on \"{}\"{} alone, not on {}", kSkipStep,
                         decides_experts_ ? fmt::format(" and \"{}\"", kExpertTokens) : "",
                         describe(name)));
    }
    if (scenario_.training.loss_scaling == LossScaling::Mode::none) {
      refuse(name, pointer + "/name", "without loss scaling no step is skipped");
    }
    const RankRange ranks = ranks_of(member(row, pointer, "ranks"), pointer + "/ranks");
    const JsonValue& answers = member(row, pointer, "answers");
    check_answers(answers, pointer + "/answers");
    // Ranks that skip different steps would wait for each other.
    if (!answers_.empty() && answers.string() != answers_) {
      refuse(answers, pointer + "/answers",
             fmt::format("ranks {} to {} answer otherwise than others", ranks.first, ranks.last));
    }
    answers_ = answers.string();
    for (std::size_t rank = ranks.first; rank <= ranks.last; ++rank) {
      if (taken_[rank]) refuse(row, pointer, fmt::format("two rows of rank {}", rank));
      taken_[rank] = true;
    }
  }

  // All decisions of one rank on its experts' tokens.
  void read_numbers_row(const JsonValue& row, const std::string& pointer) {
    check_keys(row, pointer, {"name", "ranks", "numbers"});
    const RankRange ranks = ranks_of(member(row, pointer, "ranks"), pointer + "/ranks");
    const int rank = static_cast<int>(ranks.first);
    if (ranks.last != ranks.first) refuse(row, pointer, "ranks route tokens each for itself");
    if (!log_.numbers_of(rank, kExpertTokens).empty()) {
      refuse(row, pointer, fmt::format("two rows of rank {}", rank));
    }
    const JsonValue& numbers = member(row, pointer, "numbers");
    const std::string inside = pointer + "/numbers";
    if (!numbers.is_array() || numbers.array().size() != experts_.num_decisions(rank)) {
      refuse(numbers, inside,
             fmt::format("\"numbers\" must be a list of {} decisions of rank {}",
                         experts_.num_decisions(rank), rank));
    }
    for (std::size_t i = 0; i < numbers.array().size(); ++i) {
      read_numbers(rank, numbers.array()[i], pointer_to(inside, std::to_string(i)));
    }
  }

  void read_numbers(int rank, const JsonValue& list, const std::string& pointer) {
    std::vector<std::int64_t> numbers;
    if (!list.is_array()) refuse(list, pointer, "a decision must be a list of whole numbers");
    for (const JsonValue& value : list.array()) {
      const auto* whole = std::get_if<std::int64_t>(&value.data);
      if (whole == nullptr) refuse(value, pointer, "tokens are counted in whole numbers");
      numbers.push_back(*whole);
    }
    if (const std::optional<std::string> fault = experts_.find_fault(numbers)) {
      refuse(list, pointer, *fault);
    }
    log_.add_numbers(rank, kExpertTokens, std::move(numbers));
  }

  void check_experts(const JsonValue& rows) const {
    if (!decides_experts_) return;
    for (int rank = 0; rank < log_.num_ranks(); ++rank) {
      if (log_.numbers_of(rank, kExpertTokens).size() == experts_.num_decisions(rank)) continue;
      refuse(rows, "/decisions",
             fmt::format("no decisions \"{}\" of rank {}", kExpertTokens, rank));
    }
    if (const std::optional<std::string> mismatch = experts_.find_mismatch(log_)) {
      refuse(rows, "/decisions", *mismatch);
    }
  }

  RankRange ranks_of(const JsonValue& value, const std::string& pointer) const {
    std::array<std::int64_t, 2> ends{-1, -1};
    const bool two = value.is_array() && value.array().size() == ends.size();
    for (std::size_t end = 0; two && end < ends.size(); ++end) {
      const auto* whole = std::get_if<std::int64_t>(&value.array()[end].data);
      if (whole != nullptr) ends.at(end) = *whole;
    }
    if (ends[0] < 0 || ends[1] < ends[0] || ends[1] >= scenario_.system.ranks) {
      refuse(value, pointer,
             fmt::format("\"ranks\" must be the first and the last of some ranks, from 0 to {}",
                         scenario_.system.ranks - 1));
    }
    return {static_cast<std::size_t>(ends[0]), static_cast<std::size_t>(ends[1])};
  }

  void check_answers(const JsonValue& answers, const std::string& pointer) const {
    if (!answers.is_string() || answers.string().find_first_not_of("01") != std::string::npos) {
      refuse(answers, pointer, "\"answers\" must be a text of 0 and 1");
    }
    const auto steps = static_cast<std::size_t>(scenario_.execution.steps);
    if (answers.string().size() != steps) {
      refuse(answers, pointer,
             fmt::format("{} answers, but a rank decides once in each of {} steps",
                         answers.string().size(), steps));
    }
  }

  const SourceText& source_;
  const Experiment& experiment_;
  const Scenario& scenario_;
  ExpertTokens experts_{experiment_};
  bool decides_experts_ = ExpertTokens::are_decided(experiment_);
  DecisionLog log_;
  std::string answers_;  // Equal on all ranks.
  std::vector<bool> taken_ = std::vector<bool>(static_cast<std::size_t>(scenario_.system.ranks));
};

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
  const auto skipped = std::ranges::count(skips, true);
  assumptions.push_back({fmt::format("decisions are replayed: {} step{} skipped, record {}",
                                     skipped, skipped == 1 ? "" : "s", hash),
                         kSource});
  return assumptions;
}

// --- Reading -----------------------------------------------------------------------------------

DecisionLog parse_decisions(const std::string& text, const Experiment& experiment,
                            const std::string& path) {
  const SourceText source{.name = path, .text = text};
  return Reader(source, experiment).read();
}

DecisionLog read_decisions(const std::string& path, const Experiment& experiment) {
  return parse_decisions(read_regular_file(path, limits_of(experiment).max_bytes), experiment,
                         path);
}

}  // namespace shardsim
