#include "tests/edge/edge_scenario.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <rapidcheck.h>

#include "scenarios/field.hpp"

#include "tests/draws.hpp"

namespace shardsim::test {

namespace {

std::string quoted(const std::string& word) { return "\"" + word + "\""; }

// --- Values of a field --------------------------------------------------------------------------

std::string whole(double value) { return fmt::format("{}", static_cast<std::int64_t>(value)); }

// The present value, one more or less, its double and half; the ends of the range, and just beyond.
Words whole_numbers(const Field& field, const std::string& now) {
  Words values = {"0", "1", "2", "3", "4", "5", "7", "8", "16", "-1", quoted("auto"), "1.5"};
  if (!now.empty()) {
    const std::int64_t number = std::atoll(now.c_str());
    for (const std::int64_t near : {number - 1, number + 1, number * 2, number / 2, number * 3}) {
      values.push_back(std::to_string(near));
    }
  }
  for (const double end : {field.limits.min, field.limits.max}) {
    for (const double beyond : {-1.0, 0.0, 1.0}) values.push_back(whole(end + beyond));
  }
  return values;
}

Words numbers(const Field& field, const std::string& now) {
  const NumberRange& limits = field.limits;
  Words values = {"0", "-1", "0.5", "1", "2", "1e-3", "1e9", quoted("1")};
  if (!now.empty()) values.push_back(fmt::format("{:g}", std::atof(now.c_str()) * 2));
  for (const double end : {limits.min, limits.max}) {
    for (const double towards : {-HUGE_VAL, HUGE_VAL}) {
      const double beyond = std::nextafter(end, towards);
      if (std::isfinite(beyond)) values.push_back(fmt::format("{:.17g}", beyond));
    }
    values.push_back(fmt::format("{:.17g}", end));
  }
  return values;
}

// The known texts of text fields, and names of missing files, which are refused.
Words texts(const std::string& path) {
  if (path == "system.nccl.algorithms") {
    return {"ring",
            "tree",
            "nvls",
            "nvlstree",
            "pat",
            "ring,tree",
            "^ring",
            "^tree",
            "^ring,tree",
            "allreduce:tree",
            "allreduce:tree;ring",
            "ring;allreduce:tree",
            "broadcast:tree",
            "allgather:pat",
            "reducescatter:nvls;allgather:ring",
            "collnet",
            "reduce:ring",
            ";"};
  }
  if (path == "system.nccl.protocols") {
    return {"ll",           "ll128",           "simple",
            "ll,ll128",     "^simple",         "^ll",
            "allreduce:ll", "allgather:ll128", "broadcast:ll;simple",
            "fast"};
  }
  if (path == "system.device.name") return {"H100", "A100", "B200", "nobody's"};
  if (path == "system.gpu_generation") return {"ampere", "hopper", "blackwell"};
  return {"", "x", "none", "ring"};
}

Words lists() {
  return {"[]",           "[1]",       "[0]",       "[1, 1]",  "[1, 2]",
          "[2, 1]",       "[1, 1, 1]", "[1, 0, 1]", "[2, 2]",  "[3, 1]",
          "[1, 1, 1, 1]", "[0, 1]",    "[0, 0]",    "[-1, 2]", "[2, 2, 2, 2]"};
}

Words values_of(const Field& field, const std::string& now) {
  switch (field.type) {
    case FieldType::boolean:
      return {"true", "false", "true", "false", "1"};
    case FieldType::integer:
      return whole_numbers(field, now);
    case FieldType::number:
      return numbers(field, now);
    case FieldType::choice: {
      Words values;
      for (const std::string& choice : field.choices) values.push_back(quoted(choice));
      if (values.empty()) values.push_back(quoted("?"));
      return values;
    }
    case FieldType::text: {
      Words values;
      for (const std::string& text : texts(field.path)) values.push_back(quoted(text));
      return values;
    }
    case FieldType::rank_list:
    case FieldType::integer_list:
      return lists();
  }
  return {"null"};
}

// --- More than one field ------------------------------------------------------------------------

const char* const kExpectations[] = {
    R"([{"metric": "mfu", "op": ">=", "value": 0.4}])",
    R"([{"metric": "step_time_s", "op": ">", "value": 0}])",
    R"([{"metric": "memory.peak_bytes.max", "op": "<=", "value": 1}])",
    R"([{"metric": "oracle.passed", "op": "==", "value": 1}])",
    R"([{"metric": "oracle.max_rel_error.grads", "op": "<", "value": 1}])",
    R"([{"metric": "goodput.fraction", "op": ">", "value": 0.5}])",
    R"([{"metric": "moe.dropped_tokens", "op": "==", "value": 0}])",
    R"([{"metric": "moe.load_imbalance", "op": ">=", "value": 1}])",
    R"([{"metric": "loss_scaling.skipped_steps", "op": "==", "value": 0}])",
    R"([{"metric": "loss_scaling.scale", "op": ">", "value": 0}])",
    R"([{"metric": "time.pipeline_idle_s.max", "op": ">=", "value": 0}])",
    R"([{"metric": "memory.host_bytes.max", "op": ">", "value": 0}])",
    R"([{"metric": "cost.usd", "op": ">", "value": 0}])",
    R"([{"metric": "nothing", "op": ">", "value": 0}])",
    R"([{"metric": "mfu", "op": "~", "value": 0}])",
};

const char* const kStragglers[] = {
    R"([{"rank": 0, "slowdown": 2}])",    R"([{"rank": 7, "slowdown": 1.5}])",
    R"([{"stage": 1, "slowdown": 1.1}])", R"([{"node": 0, "slowdown": 1}])",
    R"([{"node": 1, "slowdown": 1.2}])",  R"([{"rank": 0, "node": 0, "slowdown": 2}])",
    R"([{"rank": 1, "slowdown": 0.5}])",  R"([{"slowdown": 2}])",
};

const char* const kSlowLinks[] = {
    R"([{"node": 0, "bandwidth_factor": 0.5}])",
    R"([{"node": 1, "bandwidth_factor": 0.5}])",
    R"([{"tier": "intra_node", "bandwidth_factor": 0.1}])",
    R"([{"tier": "inter_node", "added_latency_us": 10}])",
    R"([{"node": 0, "tier": "intra_node", "bandwidth_factor": 1}])",
    R"([{"node": 0}])",
};

const char* const kFlappingLinks[] = {
    R"([{"node": 0, "down_s": 0.05, "period_s": 5, "phase_s": 1}])",
    R"([{"tier": "inter_node", "down_s": 1e-6, "period_s": 1e-5}])",
    R"([{"node": 1, "down_s": 1, "period_s": 1}])",
    R"([{"node": 0, "down_s": 2, "period_s": 1}])",
};

template <std::size_t n>
std::string row_of(const char* const (&values)[n]) {
  return values[draw_in(0, static_cast<std::int64_t>(n))];
}

void change_lists(DrawnScenario& s) {
  const std::int64_t which = draw_in(0, 5);
  if (which == 0) s.set("faults.stragglers", row_of(kStragglers));
  if (which == 1) s.set("faults.slow_links", row_of(kSlowLinks));
  if (which == 2) s.set("faults.flapping_links", row_of(kFlappingLinks));
  if (which >= 3) s.set("expect", row_of(kExpectations));
}

// Fields that have an effect only with failures.
void add_failures(DrawnScenario& s) {
  s.set("faults.gpu_mtbf_hours", one_of({"50000", "1", "0"}));
  if (once_in(2)) s.set("faults.checkpoint_gb_per_s", "50");
  if (once_in(2)) s.set("faults.restart_s", "300");
  if (once_in(2)) s.set("faults.detection_s", "600");
}

// --- Values that just fit together, or just do not ----------------------------------------------

std::int64_t number_at(const DrawnScenario& s, const std::string& path, std::int64_t otherwise) {
  const std::string value = s.get(path);
  return value.empty() ? otherwise : std::atoll(value.c_str());
}

// Multiplies one axis and the ranks; may multiply heads, layers, sequences and batch, too.
void stretch(DrawnScenario& s) {
  const std::string axis = one_of({"tp", "pp", "cp", "dp_shard", "dp_replicate"});
  const std::int64_t factor = once_in(3) ? 3 : 2;
  const auto multiply = [&](const std::string& path) {
    s.set(path, factor * number_at(s, path, 1));
  };
  multiply("parallelism." + axis);
  multiply("system.gpus_per_node");
  if (axis.rfind("dp", 0) == 0 || once_in(2)) multiply("training.global_batch_size");
  if (axis == "pp" && !once_in(4)) multiply("model.num_layers");
  if (axis == "cp" || once_in(3)) multiply("model.seq_len");
  if (axis == "tp" && !once_in(3)) {
    for (const char* width : {"hidden_size", "ffn_hidden_size", "num_attention_heads",
                              "num_query_groups", "moe_ffn_hidden_size"}) {
      const std::string path = std::string("model.") + width;
      if (!s.get(path).empty()) multiply(path);
    }
  }
}

// Layers of each stage: as many as there are in all, or one more or less.
void deal_layers(DrawnScenario& s) {
  const std::int64_t stages =
      number_at(s, "parallelism.pp", 1) * number_at(s, "parallelism.vpp", 1);
  std::int64_t left = number_at(s, "model.num_layers", 1) + (once_in(4) ? draw_in(-1, 2) : 0);
  std::string list;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    const std::int64_t mine =
        stage == stages - 1 ? left : draw_in(0, std::max<std::int64_t>(left, 0) + 1);
    list += (stage == 0 ? "[" : ", ") + std::to_string(mine);
    left -= mine;
  }
  s.set("parallelism.stage_layers", list + "]");
}

void change_algorithm(DrawnScenario& s) {
  s.set_word("parallelism.data_parallel",
             one_of({"elastic", "local_sgd", "diloco", "async_sgd", "synchronous"}));
  if (once_in(2)) s.set("parallelism.elastic_members", one_of(lists()));
  if (once_in(2)) s.set("parallelism.sync_period", draw_in(1, 4));
  if (once_in(2)) s.set("parallelism.max_staleness", draw_in(0, 4));
  if (once_in(3)) {
    s.set_word("parallelism.gradient_compression", one_of({"top_k", "int8", "none"}));
    s.set("parallelism.compression_ratio", one_of({"0", "0.01", "0.5", "1"}));
  }
  if (once_in(2)) s.set("parallelism.zero_stage", draw_in(0, 4));
}

// A batch of so many microbatches; once in four one sequence more.
void change_microbatches(DrawnScenario& s, std::int64_t microbatches) {
  const std::int64_t at_once = number_at(s, "training.micro_batch_size", 1) *
                               number_at(s, "parallelism.dp_replicate", 1) *
                               number_at(s, "parallelism.dp_shard", 1);
  s.set("training.num_microbatches", microbatches);
  s.set("training.global_batch_size", microbatches * at_once + (once_in(4) ? 1 : 0));
}

// Draws lie in folders of their own.
std::string path_from_root(const std::string& file) {
  return std::filesystem::absolute(file).string();
}

// The file is for two stages and four microbatches.
void schedule_from_file(DrawnScenario& s) {
  s.set_word("parallelism.schedule", "file");
  s.set_word("parallelism.schedule_file", path_from_root("tests/scenarios/data/1f1b.csv"));
  if (!once_in(4)) s.erase("parallelism.vpp");
  if (!once_in(4)) change_microbatches(s, 4);
}

// The file is for eight experts.
void popularity_from_file(DrawnScenario& s) {
  s.set_word("model.moe_routing", "file");
  s.set_word("model.moe_popularity_file", path_from_root("scenarios/routing/eight-experts.json"));
  if (!once_in(4)) s.set("model.num_experts", 8);
}

void change_schedule(DrawnScenario& s) {
  const std::int64_t pp = number_at(s, "parallelism.pp", 1);
  // Other schedules are refused without stages, and the file's with more of them.
  if (pp == 1 && !once_in(4)) return change_microbatches(s, draw_in(1, 9));
  if (once_in(pp == 2 ? 2 : 16)) return schedule_from_file(s);
  s.set_word("parallelism.schedule",
             one_of({"1f1b", "gpipe", "interleaved_1f1b", "looped_bfs", "zb_h1", "zb_h2", "zb_v",
                     "v_half", "v_min", "dualpipe_v"}));
  if (once_in(2)) s.set("parallelism.vpp", draw_in(1, 4));
  if (once_in(3)) s.set("parallelism.account_for_embedding_in_pipeline_split", "true");
  if (once_in(3)) s.set("parallelism.account_for_loss_in_pipeline_split", "true");
  if (once_in(3)) deal_layers(s);
  if (once_in(3)) change_microbatches(s, draw_in(1, 9));
}

void share_experts(DrawnScenario& s) {
  if (s.get("model.num_experts").empty()) return;
  if (once_in(3)) return popularity_from_file(s);
  s.set("parallelism.ep", draw_in(1, 9));
  if (once_in(3)) s.set("parallelism.etp", draw_in(1, 5));
  if (once_in(2)) s.set("model.num_experts", draw_in(1, 13));
  if (once_in(3)) s.set("model.num_experts_per_token", draw_in(1, 4));
  if (once_in(3)) s.set("model.first_dense_layers", draw_in(0, 3));
  if (once_in(3)) s.set("parallelism.sequence_parallel", one_of({"true", "false"}));
  if (once_in(3)) s.set("model.moe_capacity_factor", one_of({"1e-9", "0.3", "1.01", "1000"}));
  if (once_in(3)) s.set("model.moe_skew", one_of({"0", "16", "3.5"}));
}

void change_together(DrawnScenario& s) {
  const std::int64_t which = draw_in(0, 5);
  if (which == 0) stretch(s);
  if (which == 1) change_schedule(s);
  if (which == 2) change_algorithm(s);
  if (which == 3) share_experts(s);
  if (which == 4) deal_layers(s);
}

// --- Bases --------------------------------------------------------------------------------------

void without_data(DrawnScenario& s) {
  s.set_word("execution.tensors", "meta");
  s.set("execution.steps", draw_in(1, 3));
}

// Prices that depend on the machine: NCCL's, kernels by their shapes, the software.
void on_preset(DrawnScenario& s) {
  const std::string ranks = s.get("system.gpus_per_node");
  std::vector<std::string> own;
  for (const auto& [path, value] : s.fields()) {
    if (path.rfind("system.", 0) == 0) own.push_back(path);
  }
  for (const std::string& path : own) s.erase(path);
  s.set_word("system.preset", one_of({"dgx-h100", "dgx-a100", "dgx-b200"}));
  const std::int64_t count = std::atoll(ranks.c_str());
  if (count <= 4 && once_in(2)) {  // On two nodes.
    s.set("system.nodes", 2);
    s.set("system.gpus_per_node", count);
    s.set("parallelism.dp_replicate", 2 * std::atoll(s.get("parallelism.dp_replicate").c_str()));
    s.set("training.global_batch_size",
          2 * std::atoll(s.get("training.global_batch_size").c_str()));
  } else {
    s.set("system.nodes", 1);
    s.set("system.gpus_per_node", count);
  }
  if (s.get("training.precision") == quoted("fp64")) s.set_word("training.precision", "bf16");
}

// Fields that only name something, and files. NCCL's model reads system.device.name.
bool is_dull(const Field& field) {
  static const Words kDull = {"$schema",       "name",        "schema_version", "model.preset",
                              "system.preset", "system.name", "execution.seed"};
  return std::find(kDull.begin(), kDull.end(), field.path) != kDull.end() ||
         field.path.starts_with("output.") || last_key(field.path) == "source" ||
         is_item_field(field);
}

std::vector<const Field*> interesting_fields() {
  std::vector<const Field*> fields;
  for (const Field& field : field_table()) {
    if (!is_dull(field)) fields.push_back(&field);
  }
  return fields;
}

}  // namespace

DrawnScenario draw_preset_plan() {
  DrawnScenario s = draw_verify_scenario();
  without_data(s);
  on_preset(s);
  s.set_word("system.network_model", "nccl");
  return s;
}

DrawnScenario draw_edge_scenario() {
  static const std::vector<const Field*> kFields = interesting_fields();
  DrawnScenario s = draw_verify_scenario();
  if (once_in(2)) {
    without_data(s);
    if (once_in(2)) on_preset(s);
  }
  if (once_in(6)) add_failures(s);
  if (once_in(6)) change_lists(s);
  if (once_in(3)) change_together(s);
  // Each change halves the draws that the loader accepts; a third must be left.
  for (std::int64_t left = once_in(5) ? 2 : draw_in(0, 2); left > 0; --left) {
    const Field& field = **rc::gen::elementOf(kFields);
    s.set(field.path, one_of(values_of(field, s.get(field.path))));
  }
  // These fields are drawn more often where they have an effect.
  if (!s.get("system.preset").empty() && once_in(4)) {
    const Field& field =
        *find_field(once_in(2) ? "system.nccl.protocols" : "system.nccl.algorithms");
    s.set(field.path, one_of(values_of(field, "")));
  }
  return s;
}

}  // namespace shardsim::test
