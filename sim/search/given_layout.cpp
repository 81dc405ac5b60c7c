#include "sim/search/given_layout.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/text.hpp"

#include "strategies/pipeline/schedule_row.hpp"

#include "scenarios/load.hpp"
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

Scenario read_in(const SearchBase& base, const std::vector<std::string>& layout) {
  std::vector<std::string> overrides = base.overrides;
  overrides.push_back(
      fmt::format("training.global_batch_size={}", base.scenario.training.global_batch_size));
  overrides.insert(overrides.end(), layout.begin(), layout.end());
  return load_scenario_text(base.text, base.file, overrides);
}

Candidate read_candidate(const SearchBase& base, const std::vector<std::string>& layout) {
  const Scenario scenario = read_in(base, layout);
  return candidate_of(scenario.parallelism, scenario.training);
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
  if (!names_layout_file(words)) {
    FixedAxes axes;
    for (const std::string_view part : split_at(words, ',')) fix_axis(std::string(part), axes);
    return {read_candidate(base, overrides_of_axes(axes)), {}};
  }
  const Scenario file = load_scenario(words);
  std::vector<std::string> layout = overrides_of(candidate_of(file.parallelism, file.training));
  const Scenario even = read_in(base, layout);
  GivenLayout given{candidate_of(even.parallelism, even.training), {}};
  const std::vector<std::int64_t>& layers = file.parallelism.stage_layers;
  if (layers == even.parallelism.stage_layers) return given;
  given.overrides.push_back(fmt::format("parallelism.stage_layers=[{}]", fmt::join(layers, ",")));
  layout.push_back(given.overrides.front());
  given.candidate = read_candidate(base, layout);
  return given;
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
    return each.ep == c.ep && each.dp_replicate == c.dp_replicate &&
           each.zero_stage == c.zero_stage;
  });
  if (data == block->data.end()) {
    return none_has(fmt::format("ep {}, dp_replicate {} and zero_stage {} with {}", c.ep,
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
