#include "sim/explore/explore_run.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <ostream>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "strategies/pipeline/stage_split.hpp"

#include "scenarios/load.hpp"
#include "scenarios/stage_places.hpp"
#include "sim/console/shell_word.hpp"
#include "sim/console/whole_file.hpp"
#include "sim/explore/scenario_explorer.hpp"

namespace shardsim {

namespace {

// --- Smaller values ----------------------------------------------------------------------------

// The steps by which a scenario gets smaller, one field at a time: ranks first, because they matter
// most; then steps and microbatches, then the model.

// Fields and the texts they get, as --set takes them.
using FieldChanges = std::map<std::string, std::string>;

// One way to be smaller: the changes that it needs at least, then more changes if the file
// contradicts these. The first that loads counts.
using SmallerScenario = std::vector<FieldChanges>;

// A field, and where a scenario's part has it.
template <class Spec>
struct SizeField {
  const char* field;
  std::int64_t Spec::*size;
};
using Axis = SizeField<ParallelismSpec>;
using Size = SizeField<ModelSpec>;
constexpr std::array<Axis, 7> kAxes = {{
    {"parallelism.dp_replicate", &ParallelismSpec::dp_replicate},
    {"parallelism.dp_shard", &ParallelismSpec::dp_shard},
    {"parallelism.cp", &ParallelismSpec::cp},
    {"parallelism.ep", &ParallelismSpec::ep},
    {"parallelism.etp", &ParallelismSpec::etp},
    {"parallelism.tp", &ParallelismSpec::tp},
    {"parallelism.pp", &ParallelismSpec::pp},
}};

constexpr std::array<Size, 9> kSizes = {{
    {"model.num_layers", &ModelSpec::num_layers},
    {"model.seq_len", &ModelSpec::seq_len},
    {"model.ffn_hidden_size", &ModelSpec::ffn_hidden_size},
    {"model.moe_ffn_hidden_size", &ModelSpec::moe_ffn_hidden_size},
    {"model.num_experts", &ModelSpec::num_experts},
    {"model.num_attention_heads", &ModelSpec::num_attention_heads},
    {"model.head_dim", &ModelSpec::head_dim},
    {"model.hidden_size", &ModelSpec::hidden_size},
    {"model.vocab_size", &ModelSpec::vocab_size},
}};

constexpr const char* kSteps = "execution.steps";
constexpr const char* kMicrobatches = "training.num_microbatches";
constexpr const char* kSamples = "training.micro_batch_size";

std::string text_of(std::int64_t value) { return std::to_string(value); }

// Ascending, below `value`.
std::set<std::int64_t> below(std::int64_t value, bool divisors_only) {
  std::set<std::int64_t> values;
  if (value <= 1) return values;
  values.insert(1);
  if (value % 2 == 0 || !divisors_only) values.insert(value / 2);
  if (!divisors_only) values.insert(value - 1);
  return values;
}

// Keeps nodes as full as before, as far as that divides the ranks.
void follow_with_system(const Scenario& smaller, FieldChanges& changes) {
  const ParallelismSpec& p = smaller.parallelism;
  const std::int64_t ranks = p.dp_replicate * p.dp_shard * p.cp * p.tp * p.pp;
  std::int64_t per_node = std::min(smaller.system.gpus_per_node, ranks);
  while (ranks % per_node != 0) --per_node;
  changes["system.nodes"] = text_of(ranks / per_node);
  changes["system.gpus_per_node"] = text_of(per_node);
}

void follow_with_batch(const Scenario& smaller, FieldChanges& changes) {
  const TrainingSpec& t = smaller.training;
  changes["training.global_batch_size"] =
      text_of(t.micro_batch_size * t.num_microbatches * smaller.parallelism.data_parallel_size());
}

// The default split.
std::string stage_layers_of(const Scenario& smaller) {
  const ParallelismSpec& p = smaller.parallelism;
  StageSplit split;
  split.account_for_embedding = p.account_for_embedding_in_pipeline_split;
  split.account_for_loss = p.account_for_loss_in_pipeline_split;
  split.num_ranks = static_cast<int>(p.pp);
  split.placement = stage_placement_of(smaller);
  const std::int64_t counted = smaller.model.num_layers + (split.account_for_embedding ? 1 : 0) +
                               (split.account_for_loss ? 1 : 0);
  if (p.pp * p.vpp > counted) return "";
  std::string text;
  for (const std::int64_t layers :
       even_stage_layers(smaller.model.num_layers, p.pp * p.vpp, split)) {
    text += (text.empty() ? "[" : ",") + text_of(layers);
  }
  return text + "]";
}

// `more` counts where both change a field.
FieldChanges merged(const FieldChanges& changes, FieldChanges more) {
  more.insert(changes.begin(), changes.end());
  return more;
}

void or_else(SmallerScenario& ways, const FieldChanges& more) {
  ways.push_back(merged(ways.back(), more));
}

SmallerScenario with_axis(const Scenario& scenario, const Axis& axis, std::int64_t size) {
  Scenario smaller = scenario;
  smaller.parallelism.*axis.size = size;
  FieldChanges changes = {{axis.field, text_of(size)}};
  const bool regroups = axis.size == &ParallelismSpec::ep || axis.size == &ParallelismSpec::etp;
  if (!regroups) follow_with_system(smaller, changes);
  const bool is_data =
      axis.size == &ParallelismSpec::dp_replicate || axis.size == &ParallelismSpec::dp_shard;
  if (is_data) follow_with_batch(smaller, changes);
  SmallerScenario ways = {changes};
  if (axis.size == &ParallelismSpec::pp) {
    if (size == 1) {
      or_else(ways, {{"parallelism.schedule", "none"}});
      or_else(ways, {{"parallelism.vpp", "1"}});
      smaller.parallelism.vpp = 1;
    }
    const std::string layers = stage_layers_of(smaller);
    if (!layers.empty()) or_else(ways, {{"parallelism.stage_layers", layers}});
  }
  if (axis.size == &ParallelismSpec::tp && size == 1) {
    or_else(ways, {{"parallelism.sequence_parallel", "false"}});
  }
  const ParallelismSpec& p = smaller.parallelism;
  or_else(ways, {{"system.ranks", text_of(p.dp_replicate * p.dp_shard * p.cp * p.tp * p.pp)}});
  return ways;
}

SmallerScenario with_size(const Scenario& scenario, const Size& field, std::int64_t size) {
  Scenario smaller = scenario;
  smaller.model.*field.size = size;
  SmallerScenario ways = {{{field.field, text_of(size)}}};
  if (field.size == &ModelSpec::num_layers) {
    const std::string layers = stage_layers_of(smaller);
    if (!layers.empty()) or_else(ways, {{"parallelism.stage_layers", layers}});
  }
  if (field.size == &ModelSpec::num_attention_heads) {
    or_else(ways, {{"model.num_query_groups", text_of(size)}});
  }
  return ways;
}

SmallerScenario with_batch(const Scenario& scenario, const char* field, std::int64_t size) {
  Scenario smaller = scenario;
  std::int64_t& value = field == kMicrobatches ? smaller.training.num_microbatches
                                               : smaller.training.micro_batch_size;
  value = size;
  FieldChanges changes;
  if (field == kSamples) changes[field] = text_of(size);
  follow_with_batch(smaller, changes);
  SmallerScenario ways = {changes};
  if (field == kMicrobatches) or_else(ways, {{field, text_of(size)}});
  return ways;
}

// Names of fields that can be made smaller, in the order in which to try them.
std::vector<std::string> shrinkable_fields() {
  std::vector<std::string> fields;
  for (const Axis& axis : kAxes) fields.emplace_back(axis.field);
  for (const char* const field : {kSteps, kMicrobatches, kSamples}) fields.emplace_back(field);
  for (const Size& size : kSizes) fields.emplace_back(size.field);
  return fields;
}

// `field` made smaller, the smallest first, with the dependent fields (the system's size, the
// global batch). Empty if it is as small as can be.
std::vector<SmallerScenario> smaller_values(const Scenario& scenario, const std::string& field) {
  std::vector<SmallerScenario> all;
  const auto add = [&](const char* row, std::int64_t now, bool divisors_only, const auto& with) {
    if (field != row) return;
    for (const std::int64_t size : below(now, divisors_only)) all.push_back(with(size));
  };
  for (const Axis& axis : kAxes) {
    add(axis.field, scenario.parallelism.*axis.size, true,
        [&](std::int64_t size) { return with_axis(scenario, axis, size); });
  }
  for (const Size& each : kSizes) {
    add(each.field, scenario.model.*each.size, false,
        [&](std::int64_t size) { return with_size(scenario, each, size); });
  }
  add(kSteps, scenario.execution.steps, false, [](std::int64_t steps) {
    return SmallerScenario{{{kSteps, text_of(steps)}}};
  });
  add(kMicrobatches, scenario.training.num_microbatches, false,
      [&](std::int64_t size) { return with_batch(scenario, kMicrobatches, size); });
  add(kSamples, scenario.training.micro_batch_size, false,
      [&](std::int64_t size) { return with_batch(scenario, kSamples, size); });
  return all;
}

// --- Shrinking ---------------------------------------------------------------------------------

constexpr int kMostShrinkRuns = 200;

// A failure that needs luck gets this many drawn schedules in each smaller scenario.
constexpr int kDrawn = 6;

struct Attempt {
  RunOutcome outcome;
  std::optional<Schedule> schedule;
  int runs = 0;
};

Attempt attempt(const Experiment& experiment, const FailedScenario& failed, const RunHooks& hooks) {
  if (!failed.schedule) return {run_experiment(experiment, hooks), std::nullopt, 1};
  ScenarioExplorer explorer(experiment, hooks);
  Attempt made = {explorer.verdict(*failed.schedule), failed.schedule, 0};
  // Another number of ranks may need another order.
  if (failed.schedule->seed != 0 && failure_code(made.outcome.result) != failed.code) {
    made.outcome = explorer.explore({.mode = "pct", .schedules = kDrawn});
    made.schedule = explorer.last_schedule();
  }
  made.runs = explorer.num_runs();
  return made;
}

class ScenarioShrinker {
 public:
  ScenarioShrinker(FailedScenario failed, RunHooks hooks)
      : failed_(std::move(failed)), hooks_(std::move(hooks)) {
    found_.scenario = failed_.scenario;
    found_.overrides = failed_.overrides;
    found_.schedule = failed_.schedule;
  }

  ShrunkScenario shrink() {
    bool went_on = true;
    while (went_on && found_.runs < kMostShrinkRuns) {
      went_on = false;
      for (const std::string& field : shrinkable_fields()) {
        while (shrink_field(field)) went_on = true;
      }
    }
    found_.is_complete = found_.runs < kMostShrinkRuns;
    return std::move(found_);
  }

 private:
  bool shrink_field(const std::string& field) {
    for (const SmallerScenario& ways : smaller_values(found_.scenario, field)) {
      for (const FieldChanges& way : ways) {
        if (found_.runs >= kMostShrinkRuns) return false;
        try {
          Scenario smaller = load_scenario(failed_.file, overrides_with(way));
          if (accept(way, std::move(smaller))) return true;
          break;  // It loads: more overrides would change nothing.
        } catch (const Error&) {
          continue;  // No scenario, or none that can be run.
        }
      }
    }
    return false;
  }

  bool accept(const FieldChanges& changes, Scenario smaller) {
    Attempt made = attempt(compile(smaller), failed_, hooks_);
    found_.runs += made.runs;
    if (failure_code(made.outcome.result) != failed_.code) return false;
    found_.overrides = overrides_with(changes);
    changes_ = merged(changes_, changes);
    found_.scenario = std::move(smaller);
    found_.outcome = std::move(made.outcome);
    found_.schedule = made.schedule;
    failed_.schedule = made.schedule;
    found_.is_smaller = true;
    return true;
  }

  std::vector<std::string> overrides_with(const FieldChanges& changes) const {
    const FieldChanges all = merged(changes_, changes);
    std::vector<std::string> overrides;
    for (const std::string& given : failed_.overrides) {
      if (all.find(overridden_field(given)) == all.end()) overrides.push_back(given);
    }
    for (const auto& [field, value] : all) overrides.push_back(fmt::format("{}={}", field, value));
    return overrides;
  }

  FailedScenario failed_;
  RunHooks hooks_;
  FieldChanges changes_;  // Against the file and --set.
  ShrunkScenario found_;
};

std::string size_of_search(const ShrunkScenario& shrunk) {
  return shrunk.is_complete
             ? fmt::format("in {} runs; nothing smaller fails in the same way", shrunk.runs)
             : fmt::format("in {} runs, the limit", shrunk.runs);
}

std::string what_fails(const Result& result) {
  if (result.diagnosis) return result.diagnosis->to_text();
  std::string text;
  for (const Check& check : result.checks) {
    if (!check.passed) text += fmt::format("{}: {}\n", check.name, check.detail);
  }
  return text;
}

}  // namespace

ShrunkScenario shrink(FailedScenario failed, RunHooks hooks) {
  return ScenarioShrinker(std::move(failed), std::move(hooks)).shrink();
}

ExploredRun run_as_asked(const Experiment& experiment, const RunHooks& hooks,
                         const ExploreArguments& arguments) {
  if (!arguments.is_asked()) return {run_experiment(experiment, hooks), std::nullopt};
  ScenarioExplorer explorer(experiment, hooks);
  ExploredRun run;
  if (arguments.replay) {
    run.schedule = schedule_of(*arguments.replay, experiment, arguments.replay_force);
    run.outcome = explorer.replay(*run.schedule);
  } else {
    run.outcome = explorer.explore(arguments);
    run.schedule = explorer.last_schedule();
  }
  return run;
}

void report_shrunk(const ShrunkScenario& shrunk, const FailedScenario& failed,
                   const ExploreArguments& arguments, std::ostream& out, std::ostream& err) {
  if (!shrunk.is_smaller) {
    out << fmt::format("\nnot shrunk: nothing smaller that loads fails with {} ({} runs)\n",
                       failed.code, shrunk.runs);
    return;
  }
  std::string command = command_line(failed.file, shrunk.overrides);
  if (shrunk.schedule) {
    command += " --replay " + to_text(token_of(compile(shrunk.scenario), *shrunk.schedule));
  }
  out << fmt::format("\nshrunk from {} ranks to {}, {}:\n  {}\n\n{}", failed.scenario.system.ranks,
                     shrunk.scenario.system.ranks, size_of_search(shrunk), command,
                     what_fails(shrunk.outcome.result));
  if (arguments.shrunk_directory.empty()) return;
  const std::filesystem::path path =
      std::filesystem::path(arguments.shrunk_directory) / kShrunkFile;
  write_complete(path, shrunk.scenario.resolved_json + "\n", "choose another folder with --out");
  tell_written(path, err);
}

}  // namespace shardsim
