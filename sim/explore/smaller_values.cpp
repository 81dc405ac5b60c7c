#include "sim/explore/smaller_values.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "strategies/pipeline/stage_split.hpp"

#include "scenarios/stage_places.hpp"

namespace shardsim {

namespace {

struct Axis {
  const char* field;
  std::int64_t ParallelismSpec::*size;
};
constexpr std::array<Axis, 6> kAxes = {{
    {"parallelism.dp_replicate", &ParallelismSpec::dp_replicate},
    {"parallelism.dp_shard", &ParallelismSpec::dp_shard},
    {"parallelism.cp", &ParallelismSpec::cp},
    {"parallelism.ep", &ParallelismSpec::ep},
    {"parallelism.tp", &ParallelismSpec::tp},
    {"parallelism.pp", &ParallelismSpec::pp},
}};

struct Size {
  const char* field;
  std::int64_t ModelSpec::*size;
};
constexpr std::array<Size, 8> kSizes = {{
    {"model.num_layers", &ModelSpec::num_layers},
    {"model.seq_len", &ModelSpec::seq_len},
    {"model.ffn_hidden_size", &ModelSpec::ffn_hidden_size},
    {"model.moe_ffn_hidden_size", &ModelSpec::moe_ffn_hidden_size},
    {"model.num_experts", &ModelSpec::num_experts},
    {"model.num_attention_heads", &ModelSpec::num_attention_heads},
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

void or_else(SmallerScenario& ways, const FieldChanges& more) {
  FieldChanges all = ways.back();
  for (const auto& [field, value] : more) all[field] = value;
  ways.push_back(std::move(all));
}

SmallerScenario with_axis(const Scenario& scenario, const Axis& axis, std::int64_t size) {
  Scenario smaller = scenario;
  smaller.parallelism.*axis.size = size;
  FieldChanges changes = {{axis.field, text_of(size)}};
  if (axis.size != &ParallelismSpec::ep) follow_with_system(smaller, changes);
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

std::vector<std::string> fields_in_order() {
  std::vector<std::string> fields;
  for (const Axis& axis : kAxes) fields.emplace_back(axis.field);
  for (const char* const field : {kSteps, kMicrobatches, kSamples}) fields.emplace_back(field);
  for (const Size& size : kSizes) fields.emplace_back(size.field);
  return fields;
}

}  // namespace

const std::vector<std::string>& shrinkable_fields() {
  static const std::vector<std::string> kFields = fields_in_order();
  return kFields;
}

std::vector<SmallerScenario> smaller_values(const Scenario& scenario, const std::string& field) {
  std::vector<SmallerScenario> all;
  for (const Axis& axis : kAxes) {
    if (field != axis.field) continue;
    for (const std::int64_t size : below(scenario.parallelism.*axis.size, true)) {
      all.push_back(with_axis(scenario, axis, size));
    }
  }
  for (const Size& each : kSizes) {
    if (field != each.field) continue;
    for (const std::int64_t size : below(scenario.model.*each.size, false)) {
      all.push_back(with_size(scenario, each, size));
    }
  }
  if (field == kSteps) {
    for (const std::int64_t steps : below(scenario.execution.steps, false)) {
      all.push_back({{{kSteps, text_of(steps)}}});
    }
  }
  for (const char* const batch : {kMicrobatches, kSamples}) {
    if (field != batch) continue;
    const std::int64_t now = batch == kMicrobatches ? scenario.training.num_microbatches
                                                    : scenario.training.micro_batch_size;
    for (const std::int64_t size : below(now, false)) {
      all.push_back(with_batch(scenario, batch, size));
    }
  }
  return all;
}

}  // namespace shardsim
