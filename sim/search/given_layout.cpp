#include "sim/search/given_layout.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/text.hpp"

#include "strategies/pipeline/schedule_row.hpp"

#include "scenarios/json_value.hpp"
#include "scenarios/load.hpp"
#include "scenarios/read_file.hpp"
#include "scenarios/scenario_error.hpp"
#include "sim/search/search_request.hpp"

namespace shardsim {
namespace {

// "parallelism.tp=2" for each axis.
std::vector<std::string> overrides_of_axes(const FixedAxes& axes) {
  std::vector<std::string> overrides;
  for (const auto& [axis, values] : axes) {
    const bool is_of_training = axis == "micro_batch_size" || axis == "recompute";
    overrides.push_back(
        fmt::format("{}.{}={}", is_of_training ? "training" : "parallelism", axis, values.front()));
  }
  const auto tp = axes.find("tp");
  if (tp != axes.end() && tp->second.front() != "1" && axes.count("sequence_parallel") == 0) {
    overrides.emplace_back("parallelism.sequence_parallel=true");
  }
  return overrides;
}

// Problems of a given layout name its words, not the overrides that stand for them here.
class GivenReader {
 public:
  GivenReader(const SearchBase& base, const std::string& words) : base_(base), words_(words) {}

  [[nodiscard]] Scenario read(const std::vector<std::string>& layout) const {
    std::vector<std::string> overrides = {
        fmt::format("training.global_batch_size={}", base_.scenario.training.global_batch_size)};
    overrides.insert(overrides.end(), layout.begin(), layout.end());
    std::vector<std::string> all = base_.overrides;
    all.insert(all.end(), overrides.begin(), overrides.end());
    try {
      return load_scenario_text(base_.text, base_.file, all);
    } catch (const ScenarioError& error) {
      std::vector<Problem> problems = error.problems();
      for (Problem& problem : problems) place(problem, overrides);
      throw ScenarioError(std::move(problems), error.num_dropped());
    }
  }
  [[nodiscard]] Candidate read_candidate(const std::vector<std::string>& layout) const {
    const Scenario scenario = read(layout);
    return candidate_of(scenario.parallelism, scenario.training);
  }

 private:
  void place(Problem& problem, const std::vector<std::string>& overrides) const {
    const bool is_ours = std::ranges::any_of(overrides, [&problem](const std::string& override) {
      return problem.file == "--set " + override;
    });
    if (is_ours || problem.file.empty()) problem.file = "--against " + words_;
    problem.message = "in the given layout, " + problem.message;
  }

  const SearchBase& base_;
  const std::string& words_;
};

// How a scenario's file wants layers on stages, where that is not the plan's way.
std::vector<std::string> overrides_of_stages(const std::string& path, const ParallelismSpec& file,
                                             const ParallelismSpec& plan) {
  std::vector<std::string> overrides;
  const auto add_rule = [&overrides](const char* field, bool theirs, bool ours) {
    if (theirs != ours) overrides.push_back(fmt::format("parallelism.{}={}", field, theirs));
  };
  add_rule("account_for_embedding_in_pipeline_split", file.account_for_embedding_in_pipeline_split,
           plan.account_for_embedding_in_pipeline_split);
  add_rule("account_for_loss_in_pipeline_split", file.account_for_loss_in_pipeline_split,
           plan.account_for_loss_in_pipeline_split);
  // A derived list is of the file's model: one that the file gives counts.
  const SourceText source{path, read_regular_file(path, JsonLimits{}.max_bytes)};
  ProblemList problems;
  const std::optional<JsonValue> document = parse_json(source, problems);
  problems.throw_if_any();
  const JsonValue* const parallelism = document->find("parallelism");
  if (parallelism != nullptr && parallelism->find("stage_layers") != nullptr) {
    overrides.push_back(
        fmt::format("parallelism.stage_layers=[{}]", fmt::join(file.stage_layers, ",")));
  }
  return overrides;
}

std::string none_has(const std::string& words) { return fmt::format("none of them has {}", words); }

std::string words_of_degrees(const Candidate& c) {
  return fmt::format("tp {}, cp {} and pp {}", c.tp, c.cp, c.pp);
}

}  // namespace

bool names_layout_file(const std::string& words) { return words.ends_with(".json"); }

Candidate candidate_of(const ParallelismSpec& p, const TrainingSpec& t) {
  const bool has_schedule = p.schedule != "none";
  if (p.schedule == kScheduleFromFile) {
    throw UsageError("E1340", "a schedule from a file cannot be ranked among those of a search",
                     "name one of its schedules instead");
  }
  return {.tp = p.tp,
          .pp = p.pp,
          .cp = p.cp,
          .ep = p.ep,
          .etp = p.etp,
          .vpp = p.vpp,
          .dp_replicate = p.dp_replicate,
          .dp_shard = p.dp_shard,
          .micro_batch_size = t.micro_batch_size,
          .num_microbatches = t.num_microbatches,
          .zero_stage = p.zero_stage,
          .sequence_parallel = p.sequence_parallel,
          .schedule = has_schedule ? schedule_row(p.schedule).name : "none",
          .recompute = t.recompute};
}

GivenLayout read_given_layout(const SearchBase& base, const std::string& words) {
  const GivenReader reader(base, words);
  if (!names_layout_file(words)) {
    FixedAxes axes;
    for (const std::string_view part : split_at(words, ',')) fix_axis(std::string(part), axes);
    return {reader.read_candidate(overrides_of_axes(axes)), {}};
  }
  const Scenario file = load_scenario(words);
  std::vector<std::string> layout = overrides_of(candidate_of(file.parallelism, file.training));
  const std::vector<std::string> stages =
      overrides_of_stages(words, file.parallelism, base.scenario.parallelism);
  const Scenario by_rule = reader.read(layout);
  if (stages.empty()) return {candidate_of(by_rule.parallelism, by_rule.training), {}};
  layout.insert(layout.end(), stages.begin(), stages.end());
  const Scenario own = reader.read(layout);
  const bool is_by_rule = own.parallelism.stage_layers == by_rule.parallelism.stage_layers;
  return {candidate_of(own.parallelism, own.training),
          is_by_rule ? std::vector<std::string>() : stages};
}

SearchBase base_of_given(const SearchBase& base, const GivenLayout& given) {
  SearchBase with = base;
  with.overrides.insert(with.overrides.end(), given.overrides.begin(), given.overrides.end());
  return with;
}

std::string why_not_searched(const LayoutSpace& space, const GivenLayout& given,
                             LayoutPlace& place) {
  const Candidate& c = given.candidate;
  if (!given.overrides.empty()) return "each of them has the layers of its stages by a rule";
  const std::vector<LayoutBlock>& blocks = space.blocks();
  const auto block = std::ranges::find_if(blocks, [&c](const LayoutBlock& each) {
    return each.tp == c.tp && each.cp == c.cp && each.pp == c.pp;
  });
  if (block == blocks.end()) return none_has(words_of_degrees(c));
  const auto data = std::ranges::find_if(block->data, [&c](const DataChoice& each) {
    return each.ep == c.ep && each.etp == c.etp && each.dp_replicate == c.dp_replicate &&
           each.zero_stage == c.zero_stage;
  });
  if (data == block->data.end()) {
    return none_has(fmt::format("ep {}{}, dp_replicate {} and zero_stage {} with {}", c.ep,
                                c.etp > 1 ? fmt::format(", etp {}", c.etp) : std::string(),
                                c.dp_replicate, c.zero_stage, words_of_degrees(c)));
  }
  const auto batch = std::ranges::find_if(block->batches, [&c](const BatchChoice& each) {
    return each.micro_batch_size == c.micro_batch_size && each.recompute == c.recompute &&
           each.sequence_parallel == c.sequence_parallel;
  });
  if (batch == block->batches.end()) {
    return none_has(fmt::format(
        "micro_batch_size {}, sequence_parallel {} and recompute {} with {}", c.micro_batch_size,
        c.sequence_parallel, to_string(c.recompute), words_of_degrees(c)));
  }
  const auto schedule = std::ranges::find_if(batch->schedules, [&c](const ScheduleChoice& each) {
    return each.schedule == c.schedule && each.vpp == c.vpp;
  });
  if (schedule == batch->schedules.end()) {
    return none_has(
        fmt::format("schedule {} and vpp {} with {}", c.schedule, c.vpp, words_of_degrees(c)));
  }
  place = {.block = static_cast<std::uint32_t>(block - blocks.begin()),
           .batch = static_cast<std::uint32_t>(batch - block->batches.begin()),
           .schedule = static_cast<std::uint32_t>(schedule - batch->schedules.begin()),
           .data = static_cast<std::uint32_t>(data - block->data.begin())};
  return {};
}

}  // namespace shardsim
