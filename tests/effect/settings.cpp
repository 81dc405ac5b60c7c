#include "tests/effect/settings.hpp"

#include <cmath>

#include "scenarios/reading.hpp"

namespace shardsim::test {
namespace {

std::vector<std::string> other_numbers(const Field& field, double value) {
  const bool whole = field.type == FieldType::integer;
  std::vector<std::string> others;
  for (const double other : {2 * value, value / 2, value + 1, value - 1, 0.5, 0.25, 1.0, 3.0}) {
    if (other == value || (whole && other != std::floor(other))) continue;
    others.push_back(number_text(other));
  }
  return others;
}

}  // namespace

std::vector<std::string> other_values(const Field& field, const FieldValue& value) {
  if (const auto* truth = std::get_if<bool>(&value)) return {*truth ? "false" : "true"};
  if (const auto* number = std::get_if<double>(&value)) return other_numbers(field, *number);
  if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    return other_numbers(field, static_cast<double>(*whole));
  }
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr) return {};  // Lists have special settings.
  std::vector<std::string> others;
  for (const std::string& choice : field.choices) {
    if (choice != *text) others.push_back(choice);
  }
  return others;
}

std::vector<Setting> special_settings(const std::string& path) {
  const std::string nodes = R"([{"tier": "inter_node", "bandwidth_factor": 0.5}])";
  const std::string flap = R"([{"tier": "inter_node", "down_s": 0.0005, "period_s": 0.002}])";
  const std::string expect = R"([{"metric": "ranks", "op": "<=", "value": 1e6}])";
  const std::string straggler = R"([{"rank": 0, "slowdown": 2}])";
  const std::string window = R"([{"attention": "sliding", "window_size": 3}])";
  const std::vector<std::string> cycle = {"model.layers_cycle=true"};
  const std::vector<std::pair<std::string, Setting>> all = {
      {"system.nccl.algorithms", {{}, "", "tree,ring"}},
      {"system.host_us_per_kernel", {{}, "", "1000"}},
      {"system.nccl.protocols", {{}, "", "simple"}},
      // A library that runs without being named changes nothing.
      {"system.attention_library",
       {{"system.device.kernels=h100-sxm", "system.software=megatron-core-2025"}, "", "flash2"}},
      {"parallelism.overlap_tensor_parallel",
       {{"parallelism.tp=2", "parallelism.sequence_parallel=true"}, "", "true"}},
      {"parallelism.offload_modules",
       {{"parallelism.offload_layers=1", "parallelism.offload_min_elements=1"}, "", "mlp_norm"}},
      {"parallelism.offload_min_elements", {{"parallelism.offload_layers=1"}, "", "1"}},
      {"training.recompute_modules", {{"training.recompute=selective"}, "", "core_attn"}},
      {"system.preset", {{}, "", "dgx-h200"}},
      {"system.ranks", {{}, "", "32"}},
      {"system.nodes", {{}, "", "4"}},
      {"model.preset", {{}, "", "llama3-8b"}},
      {"model.moe_popularity_file", {{"model.num_experts=2"}, "", "tests/effect/popularity.json"}},
      {"parallelism.schedule_file", {{}, "", "../scenarios/data/1f1b.csv"}},
      {"parallelism.stage_layers", {{}, "", "[1,3]"}},
      {"parallelism.stage_layers", {{"parallelism.pp=2"}, "", "[1,3]"}},
      {"parallelism.elastic_members", {{}, "", "[2]"}},
      {"output.trace_ranks", {{}, "", "[0]"}},
      {"execution.all_reduce_algorithm", {{}, "", "tree"}},
      {"parallelism.first_bucket_bytes", {{}, "", "4000000"}},
      {"expect[].metric", {{}, expect, R"([{"metric": "mfu", "op": "<=", "value": 1e6}])"}},
      {"expect[].op", {{}, expect, R"([{"metric": "ranks", "op": ">=", "value": 1e6}])"}},
      {"expect[].value", {{}, expect, R"([{"metric": "ranks", "op": "<=", "value": 1e5}])"}},
      {"model.layers[].mixer", {cycle, "[{}]", R"([{"mixer": "none"}, {}])"}},
      {"model.layers[].attention", {cycle, "[{}]", window}},
      {"model.layers[].window_size",
       {cycle, window, R"([{"attention": "sliding", "window_size": 5}])"}},
      {"model.layers[].chunk_size",
       {cycle, R"([{"attention": "chunked", "chunk_size": 3}])",
        R"([{"attention": "chunked", "chunk_size": 5}])"}},
      {"model.layers[].rotary", {cycle, "[{}]", R"([{"rotary": false}])"}},
      {"model.layers[].sinks", {cycle, "[{}]", R"([{"sinks": true}])"}},
      {"model.layers[].num_attention_heads",
       {cycle, "[{}]", R"([{"num_attention_heads": 16}, {}])"}},
      {"model.layers[].num_query_groups", {cycle, "[{}]", R"([{"num_query_groups": 1}, {}])"}},
      {"model.layers[].head_dim", {cycle, "[{}]", R"([{"head_dim": 8}, {}])"}},
      {"model.layers[].value_head_dim", {cycle, "[{}]", R"([{"value_head_dim": 6}, {}])"}},
      {"model.layers[].rotary_dim", {cycle, "[{}]", R"([{"rotary_dim": 2}, {}])"}},
      {"model.layers[].keys_are_values", {cycle, "[{}]", R"([{"keys_are_values": true}, {}])"}},
      {"model.layers[].feed_forward",
       {{"model.layers_cycle=true", "model.num_experts=4", "model.ffn_hidden_size=512"},
        "[{}]",
        R"([{"feed_forward": "dense"}, {}])"}},
      {"model.layers[].repeats",
       {cycle, R"([{"rotary": false}, {}])", R"([{"rotary": false, "repeats": 2}, {}])"}},
      {"system.device.kernel_constants[].name",
       {{"system.device.kernels=h100-sxm"},
        R"([{"name": "matmul_rate", "value": 0.2, "source": "made up"}])",
        R"([{"name": "cudnn_forward_rate", "value": 0.2, "source": "made up"}])"}},
      {"system.device.kernel_constants[].value",
       {{"system.device.kernels=h100-sxm"},
        R"([{"name": "matmul_rate", "value": 0.2, "source": "made up"}])",
        R"([{"name": "matmul_rate", "value": 0.1, "source": "made up"}])"}},
      {"faults.stragglers[].rank", {{}, straggler, R"([{"rank": 1, "slowdown": 2}])"}},
      {"faults.stragglers[].stage", {{}, straggler, R"([{"stage": 0, "slowdown": 2}])"}},
      {"faults.stragglers[].node", {{}, straggler, R"([{"node": 0, "slowdown": 2}])"}},
      {"faults.stragglers[].slowdown", {{}, straggler, R"([{"rank": 0, "slowdown": 3}])"}},
      {"faults.slow_links[].node",
       {{}, nodes, R"([{"tier": "intra_node", "node": 1, "bandwidth_factor": 0.5}])"}},
      {"faults.slow_links[].tier",
       {{}, nodes, R"([{"tier": "intra_node", "bandwidth_factor": 0.5}])"}},
      {"faults.slow_links[].bandwidth_factor",
       {{}, nodes, R"([{"tier": "inter_node", "bandwidth_factor": 0.25}])"}},
      {"faults.slow_links[].added_latency_us",
       {{}, nodes, R"([{"tier": "inter_node", "bandwidth_factor": 0.5, "added_latency_us": 50}])"}},
      {"faults.flapping_links[].node",
       {{}, flap, R"([{"tier": "intra_node", "node": 1, "down_s": 0.0005, "period_s": 0.002}])"}},
      {"faults.flapping_links[].tier",
       {{}, flap, R"([{"tier": "intra_node", "down_s": 0.0005, "period_s": 0.002}])"}},
      {"faults.flapping_links[].down_s",
       {{}, flap, R"([{"tier": "inter_node", "down_s": 0.001, "period_s": 0.002}])"}},
      {"faults.flapping_links[].period_s",
       {{}, flap, R"([{"tier": "inter_node", "down_s": 0.0005, "period_s": 0.001}])"}},
      {"faults.flapping_links[].phase_s",
       {{},
        flap,
        R"([{"tier": "inter_node", "down_s": 0.0005, "period_s": 0.002, "phase_s": 0.0004}])"}},
      {"faults.gpu_mtbf_hours",
       {{"faults.restart_s=60", "faults.checkpoint_write_s=60", "faults.node_mtbf_hours=1e4"},
        "",
        "1e5"}},
      {"faults.node_mtbf_hours",
       {{"faults.restart_s=60", "faults.checkpoint_write_s=60", "faults.gpu_mtbf_hours=1e5"},
        "",
        "1e4"}},
  };
  std::vector<Setting> settings;
  for (const auto& [field, setting] : all) {
    if (field == path) settings.push_back(setting);
  }
  return settings;
}

bool names_file(const Field& field) {
  return field.path.rfind("output.", 0) == 0 && field.type == FieldType::text;
}

const std::vector<Exception>& without_home() {
  static const std::vector<Exception> kAll = {
      {"output.trace_ranks", "chooses what the file of output.trace shows"},
      {"parallelism.elastic_min", "refuses elastic_members below it, which is all it does"},
      {"parallelism.elastic_max", "refuses elastic_members above it, which is all it does"},
      {"system.device.peak_tflops.fp8", "nothing trains in fp8 yet"},
      {"system.ranks", "must agree with nodes x gpus_per_node"},
      {"training.num_microbatches", "must agree with the batch and the layout"},
      {"parallelism.dp_shard", "must agree with the ranks and the other degrees"},
      {"execution.backend", "has one value; --backend chooses another"},
  };
  return kAll;
}

const std::vector<Exception>& exceptions() {
  static const std::vector<Exception> kAll = {
      {"model.layers_cycle", "without it a list must be complete, so it alone changes nothing"},
      {"$schema", "names the schema for editors; no part of the program reads it"},
      {"schema_version", "has one value"},
      {"execution.engine", "a replay has the results of a run, byte for byte"},
      {"name", "a title: reports show it, and nothing depends on it"},
      {"system.name", "a name for reports, and nothing depends on it"},
      {"system.source", "tells where numbers come from, and changes none"},
      {"system.intra_node.source", "tells where numbers come from, and changes none"},
      {"system.inter_node.source", "tells where numbers come from, and changes none"},
      {"system.device.source", "tells where numbers come from, and changes none"},
      {"system.device.peak_tflops.source", "tells where numbers come from, and changes none"},
      {"system.device.kernel_constants[].source",
       "tells where numbers come from, and changes none"},
      {"system.nccl.source", "tells where numbers come from, and changes none"},
      {"system.nccl.intra_node.source", "tells where numbers come from, and changes none"},
      {"system.nccl.inter_node.source", "tells where numbers come from, and changes none"},
      {"model.source", "tells where numbers come from, and changes none"},
      {"model.not_modelled", "tells readers what is left out, and changes no number"},
  };
  return kAll;
}

}  // namespace shardsim::test
