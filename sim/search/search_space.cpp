#include "sim/search/search_space.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/text.hpp"

#include "strategies/pipeline/schedule.hpp"
#include "strategies/pipeline/schedule_row.hpp"

#include "scenarios/suggest.hpp"

namespace shardsim {
namespace {

// Some 500 MB of candidates with their bounds.
constexpr std::size_t kMostCandidates = 2'000'000;

std::vector<std::int64_t> divisors_of(std::int64_t number) {
  std::vector<std::int64_t> found;
  for (std::int64_t d = 1; d <= number; ++d) {
    if (number % d == 0) found.push_back(d);
  }
  return found;
}

class Enumeration {
 public:
  Enumeration(const Experiment& base, const FixedAxes& fixed)
      : base_(base.scenario()), fixed_(fixed) {}

  std::vector<Candidate> all() {
    const std::int64_t ranks = base_.system.ranks;
    for (const std::int64_t tp : divisors_of(ranks)) {
      if (!allows("tp", tp) || !splits_tensors(tp)) continue;
      for (const std::int64_t cp : divisors_of(ranks / tp)) {
        if (!allows("cp", cp) || !cuts_sequence(cp, tp)) continue;
        for (const std::int64_t pp : divisors_of(ranks / tp / cp)) {
          if (!allows("pp", pp) || pp > base_.model.num_layers) continue;
          add_data_parallel({.tp = tp, .pp = pp, .cp = cp}, ranks / tp / cp / pp);
        }
      }
    }
    return std::move(found_);
  }

 private:
  template <class Value>
  [[nodiscard]] bool allows(const char* axis, const Value& value) const {
    const auto entry = fixed_.find(axis);
    if (entry == fixed_.end()) return true;
    return std::ranges::find(entry->second, fmt::format("{}", value)) != entry->second.end();
  }

  // Whether tp divides every tensor that tensor parallelism splits.
  [[nodiscard]] bool splits_tensors(std::int64_t tp) const {
    const ModelSpec& m = base_.model;
    return m.num_attention_heads % tp == 0 && m.num_query_groups % tp == 0 &&
           m.ffn_hidden_size % tp == 0 &&
           (m.num_experts == 0 || m.num_shared_experts * m.moe_ffn_hidden_size % tp == 0);
  }

  [[nodiscard]] bool cuts_sequence(std::int64_t cp, std::int64_t tp) const {
    if (cp == 1) return true;
    if (base_.model.seq_len % (2 * cp) != 0) return false;
    // A number of ranks that is chosen fits.
    const std::int64_t exchanging =
        context_attention_row(base_.parallelism.cp_attention).exchanging_ranks(cp, 1);
    return base_.model.num_query_groups / tp % exchanging == 0;
  }

  void add_data_parallel(Candidate candidate, std::int64_t dp) {
    if (base_.training.global_batch_size % dp != 0) return;
    for (const std::int64_t ep : divisors_of(std::max<std::int64_t>(base_.model.num_experts, 1))) {
      if (!allows("ep", ep)) continue;
      candidate.ep = ep;
      for (const std::int64_t replicas : divisors_of(dp)) {
        candidate.dp_replicate = replicas;
        candidate.dp_shard = dp / replicas;
        const std::int64_t around = candidate.dp_shard * candidate.cp * candidate.tp;
        if (!allows("dp_replicate", replicas) || around % ep != 0) continue;
        add_stages_of_zero(candidate, around / ep);
      }
    }
  }

  // `expert_shards`: ranks that may share an expert's weights.
  void add_stages_of_zero(Candidate candidate, std::int64_t expert_shards) {
    const bool shards = candidate.dp_shard * candidate.cp > 1 ||
                        (base_.model.num_experts > 0 && candidate.ep > 1 && expert_shards > 1);
    // With separate experts, replicas at stage 0 and shards are other groups, but the same copies.
    for (int stage = 0; stage <= 3; ++stage) {
      if (!allows("zero_stage", stage)) continue;
      if (stage == 0 ? candidate.dp_replicate > 1 : !shards) continue;
      candidate.zero_stage = stage;
      add_microbatches(candidate);
    }
  }

  void add_microbatches(Candidate candidate) {
    const std::int64_t of_rank = base_.training.global_batch_size / candidate.dp();
    for (const std::int64_t size : divisors_of(of_rank)) {
      if (!allows("micro_batch_size", size)) continue;
      candidate.micro_batch_size = size;
      candidate.num_microbatches = of_rank / size;
      for (const bool sequence_parallel : {false, true}) {
        candidate.sequence_parallel = sequence_parallel;
        if (!may_share_tokens(candidate)) continue;
        for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
          if (!allows("recompute", to_string(recompute))) continue;
          candidate.recompute = recompute;
          add_schedules(candidate);
        }
      }
    }
  }

  [[nodiscard]] bool may_share_tokens(const Candidate& candidate) const {
    if (candidate.tp == 1) return !candidate.sequence_parallel;
    const bool is_fixed = fixed_.count("sequence_parallel") > 0;
    if (is_fixed && !allows("sequence_parallel", candidate.sequence_parallel)) return false;
    if (!candidate.sequence_parallel) return is_fixed && base_.model.num_experts == 0;
    return candidate.micro_batch_size * (base_.model.seq_len / candidate.cp) % candidate.tp == 0;
  }

  void add_schedules(Candidate candidate) {
    if (candidate.pp == 1) {
      if (allows("vpp", 1) && allows("schedule", "none")) add(candidate);
      return;
    }
    for (const std::string_view schedule : schedule_names()) {
      if (!allows("schedule", schedule)) continue;
      const ScheduleRow& row = schedule_row(schedule);
      candidate.schedule = schedule;
      if (row.takes_chunks()) {
        for (std::int64_t vpp = 2; candidate.pp * vpp <= base_.model.num_layers; ++vpp) {
          if (base_.model.num_layers % (candidate.pp * vpp) == 0) add_chunks(candidate, vpp);
        }
      } else {
        add_chunks(candidate, row.min_chunks);
      }
    }
  }

  void add_chunks(Candidate candidate, std::int64_t vpp) {
    candidate.vpp = vpp;
    const std::int64_t stages = candidate.num_stages();
    if (!allows("vpp", vpp) || stages > base_.model.num_layers) return;
    if (stages > kMaxForwards / candidate.num_microbatches) return;
    const ScheduleRow& row = schedule_row(candidate.schedule);
    if (row.whole_rounds && candidate.num_microbatches % candidate.pp != 0) return;
    const PipelineShape shape{static_cast<int>(candidate.pp), static_cast<int>(vpp), 1};
    if (candidate.num_microbatches < row.least_microbatches(shape)) return;
    add(candidate);
  }

  void add(const Candidate& candidate) {
    if (found_.size() == kMostCandidates) {
      throw LimitError("E1329",
                       fmt::format("there are more than {} layouts on {} GPUs", kMostCandidates,
                                   base_.system.ranks),
                       fmt::format("fix a choice: --fix tp=8, --fix schedule={},{}",
                                   default_schedule().name, default_schedule(true).name));
    }
    found_.push_back(candidate);
  }

  const Scenario& base_;
  const FixedAxes& fixed_;
  std::vector<Candidate> found_;
};

// Words that an axis takes; none: it takes numbers.
std::vector<std::string> choices_of(const std::string& axis) {
  if (axis == "sequence_parallel") return {"true", "false"};
  if (axis == "recompute") return {kRecomputeNames.begin(), kRecomputeNames.end()};
  if (axis == "zero_stage") return {"0", "1", "2", "3"};
  if (axis != "schedule") return {};
  std::vector<std::string> names = {"none"};
  for (const std::string_view name : schedule_names()) names.emplace_back(name);
  return names;
}

// The word as candidates write it. Throws UsageError E1325 for a value that no candidate can have.
std::string value_of_axis(const std::string& axis, const std::string& word) {
  const std::vector<std::string> choices = choices_of(axis);
  if (choices.empty()) {
    const auto number = parse_number<std::int64_t>(word);
    if (number && *number > 0) return std::to_string(*number);
  } else if (std::ranges::find(choices, word) != choices.end()) {
    return word;
  }
  throw UsageError("E1325", fmt::format("{} cannot be \"{}\"", axis, word),
                   choices.empty() ? fmt::format("write whole numbers from 1: --fix {}=1,2", axis)
                                   : help_for_word(lower_case(word), choices, "it is one of "));
}

}  // namespace

std::vector<std::string> overrides_of(const Candidate& candidate) {
  const auto set = [](const char* path, const auto& value) {
    return fmt::format("{}={}", path, value);
  };
  return {
      set("parallelism.tp", candidate.tp),
      set("parallelism.pp", candidate.pp),
      set("parallelism.cp", candidate.cp),
      set("parallelism.ep", candidate.ep),
      set("parallelism.vpp", candidate.vpp),
      set("parallelism.dp_replicate", candidate.dp_replicate),
      set("parallelism.sequence_parallel", candidate.sequence_parallel),
      set("parallelism.schedule", candidate.schedule),
      set("parallelism.zero_stage", candidate.zero_stage),
      set("training.micro_batch_size", candidate.micro_batch_size),
      set("training.recompute", to_string(candidate.recompute)),
  };
}

std::string words_of(const Candidate& candidate) {
  std::string words;
  const auto add = [&words](const std::string& word) {
    words += (words.empty() ? "" : " ") + word;
  };
  const auto degree = [&add](const char* name, std::int64_t value) {
    if (value > 1) add(name + std::to_string(value));
  };
  degree("tp", candidate.tp);
  degree("cp", candidate.cp);
  degree("pp", candidate.pp);
  degree("ep", candidate.ep);
  if (candidate.dp_replicate > 1) {
    add(fmt::format("dp{}x{}", candidate.dp_replicate, candidate.dp_shard));
  } else {
    degree("dp", candidate.dp_shard);
  }
  if (candidate.zero_stage > 0) add(fmt::format("zero{}", candidate.zero_stage));
  if (candidate.pp > 1) add(std::string(candidate.schedule));
  degree("vpp", candidate.vpp);
  if (candidate.tp > 1 && !candidate.sequence_parallel) add("no-sp");
  add(fmt::format("mb{}", candidate.micro_batch_size));
  if (candidate.recompute != Recompute::none) add(to_string(candidate.recompute));
  return words;
}

MeshShape mesh_shape_of(const Candidate& candidate, RankOrder order) {
  return {.dp_shard = static_cast<int>(candidate.dp_shard),
          .dp_replicate = static_cast<int>(candidate.dp_replicate),
          .tp = static_cast<int>(candidate.tp),
          .pp = static_cast<int>(candidate.pp),
          .cp = static_cast<int>(candidate.cp),
          .ep = static_cast<int>(candidate.ep),
          .order = order};
}

std::string help_for_word(const std::string& word, const std::vector<std::string>& names,
                          const char* all) {
  const std::string near = nearest(word, names);
  return (near.empty() ? "" : "did you mean \"" + near + "\"? ") + (all + one_of_list(names));
}

std::string lower_case(std::string word) {
  std::ranges::transform(word, word.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  });
  return word;
}

const std::vector<std::string>& axis_names() {
  static const std::vector<std::string> kNames = {"tp",
                                                  "pp",
                                                  "cp",
                                                  "ep",
                                                  "vpp",
                                                  "dp_replicate",
                                                  "zero_stage",
                                                  "micro_batch_size",
                                                  "sequence_parallel",
                                                  "schedule",
                                                  "recompute"};
  return kNames;
}

void fix_axis(const std::string& words, FixedAxes& fixed) {
  const std::size_t equals = words.find('=');
  std::string axis = words.substr(0, equals);
  if (const std::size_t dot = axis.find('.'); dot != std::string::npos) axis.erase(0, dot + 1);
  const std::vector<std::string>& names = axis_names();
  if (equals == std::string::npos || std::ranges::find(names, axis) == names.end()) {
    const std::string near = nearest(axis, names);
    throw UsageError("E1325", "\"" + words + "\" is not an axis of the search",
                     (near.empty() ? "write AXIS=VALUE[,VALUE], AXIS one of "
                                   : "did you mean \"" + near + "\"? Axes are ") +
                         one_of_list(names));
  }
  std::vector<std::string> values;
  for (const std::string_view value : split_at(std::string_view(words).substr(equals + 1), ',')) {
    values.push_back(value_of_axis(axis, std::string(value)));
  }
  fixed[axis] = std::move(values);
}

std::vector<Candidate> enumerate_candidates(const Experiment& experiment, const FixedAxes& fixed) {
  const Scenario& base = experiment.scenario();
  std::vector<Candidate> found = Enumeration(experiment, fixed).all();
  if (!found.empty()) return found;
  throw UsageError(
      "E1324",
      fmt::format("there is no legal layout of {} on {} GPUs with a global batch of {}",
                  base.model.preset.empty() ? base.name : base.model.preset, base.system.ranks,
                  base.training.global_batch_size),
      fixed.empty() ? "use a --global-batch-size that more of the GPUs divide"
                    : "relax one of --fix, or change --global-batch-size");
}

}  // namespace shardsim
