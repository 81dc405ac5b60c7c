#include "tests/drawn_scenario.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include <rapidcheck.h>

#include "tests/draws.hpp"

namespace shardsim::test {

namespace {

std::int64_t number_of(const std::vector<std::int64_t>& numbers) {
  return *rc::gen::elementOf(numbers);
}

struct Degrees {
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::int64_t cp = 1;
  std::int64_t dp_replicate = 1;
  std::int64_t dp_shard = 1;

  [[nodiscard]] std::int64_t ranks() const { return tp * pp * cp * dp_replicate * dp_shard; }
};

// One of 1, 2, 3, ... that the remaining ranks allow; half of the time 1.
std::int64_t draw_degree(const Degrees& others, std::int64_t most) {
  const std::int64_t limit = std::min(most, kMostDrawnRanks / others.ranks());
  if (limit < 2 || !once_in(2)) return 1;
  return draw_in(2, limit + 1);
}

// --- The model ---------------------------------------------------------------------------------

void draw_mlp(DrawnScenario& s, const Degrees& degrees, std::int64_t layers) {
  s.set("model.num_layers", layers);
  s.set("model.hidden_size", draw_in(1, 13));
  s.set("model.ffn_hidden_size", degrees.tp * draw_in(1, 17));
  s.set("model.vocab_size", draw_in(2, 13));
}

// Enough heads for Ulysses beside tensor parallelism; odd widths where they are allowed.
void draw_transformer(DrawnScenario& s, const std::string& family, const Degrees& degrees,
                      std::int64_t layers) {
  const std::int64_t heads = degrees.tp * degrees.cp * number_of({1, 2});
  const std::int64_t hidden = heads * number_of({2, 4, 6});
  s.set("model.num_layers", layers);
  s.set("model.hidden_size", hidden);
  s.set("model.ffn_hidden_size", degrees.tp * draw_in(1, 7));
  s.set("model.num_attention_heads", heads);
  s.set("model.vocab_size", draw_in(8, 30));
  s.set("model.seq_len", 2 * degrees.cp * degrees.tp * number_of({1, 2}));
  if (once_in(3)) s.set("model.tied_embeddings", once_in(2) ? "true" : "false");
  if (family == "llama" && once_in(2)) {
    s.set("model.num_query_groups", degrees.tp * (once_in(2) ? degrees.cp : 1));
    // Fewer than tensor-parallel ranks: they have copies.
    if (degrees.cp == 1 && once_in(2)) s.set("model.num_query_groups", degrees.tp == 4 ? 2 : 1);
  }
}

void draw_experts(DrawnScenario& s, const Degrees& degrees, bool sequence_parallel) {
  const std::int64_t experts = number_of({2, 4, 6, 8, 12});
  s.set("model.num_experts", experts);
  s.set("model.num_experts_per_token", number_of({1, 2}));
  const std::int64_t width = degrees.tp * number_of({1, 2, 3, 4});
  s.set("model.moe_ffn_hidden_size", width);
  s.set_word("model.moe_routing", one_of({"skewed", "uniform", "learned"}));
  if (once_in(3)) s.set("model.moe_aux_loss_coeff", "0.1");
  if (once_in(4)) s.set("model.moe_capacity_factor", one_of({"1", "0.5", "2"}));
  if (once_in(4)) s.set("model.num_shared_experts", 1);
  // Only ranks with tokens of their own share out experts.
  const std::int64_t tokens = degrees.dp_shard * degrees.cp * (sequence_parallel ? degrees.tp : 1);
  std::vector<std::int64_t> sizes = {1};
  for (std::int64_t size = 2; size <= tokens; ++size) {
    const bool fits = (tokens % size) == 0 && (experts % size) == 0;
    if (fits && (degrees.tp == 1 || sequence_parallel)) sizes.push_back(size);
  }
  const std::int64_t ep = number_of(sizes);
  s.set("parallelism.ep", ep);
  if (s.get("parallelism.schedule") == "\"dualpipe_v\"" && once_in(2)) {
    s.set("parallelism.delay_weight_gradients", "true");
  }
  if (ep > 1 && s.get("model.moe_capacity_factor").empty() && once_in(3)) {
    return s.set_word("parallelism.expert_dispatch", "per_node");
  }
  if (degrees.tp > 1 && !sequence_parallel) return;
  for (const std::int64_t etp : {2, 4}) {
    const bool fits = tokens % (ep * etp) == 0 && width % etp == 0;
    if (fits && once_in(3)) return s.set("parallelism.etp", etp);
  }
}

// --- The layout --------------------------------------------------------------------------------

Degrees draw_degrees(const std::string& family) {
  Degrees degrees;
  degrees.dp_shard = draw_degree(degrees, 4);
  degrees.pp = draw_degree(degrees, 4);
  degrees.tp = draw_degree(degrees, 4);
  if (family != "mlp") degrees.cp = draw_degree(degrees, 4);
  degrees.dp_replicate = draw_degree(degrees, 4);
  return degrees;
}

// Returns the number of all stages.
std::int64_t draw_schedule(DrawnScenario& s, std::int64_t pp) {
  if (pp == 1) return 1;
  const std::string schedule = one_of({"1f1b", "gpipe", "interleaved_1f1b", "looped_bfs", "zb_h1",
                                       "zb_h2", "zb_v", "v_half", "v_min", "dualpipe_v"});
  s.set_word("parallelism.schedule", schedule);
  const bool is_looped = schedule == "interleaved_1f1b" || schedule == "looped_bfs";
  if (is_looped) s.set("parallelism.vpp", 2);
  const bool one_chunk =
      schedule == "1f1b" || schedule == "gpipe" || schedule == "zb_h1" || schedule == "zb_h2";
  return one_chunk ? pp : 2 * pp;
}

void draw_sharding(DrawnScenario& s, const Degrees& degrees) {
  const std::int64_t stage = draw_in(0, 4);
  s.set("parallelism.zero_stage", stage);
  if (stage < 3 && once_in(2)) s.set("parallelism.bucket_bytes", number_of({4096, 512, 64}));
  if (stage == 3 && once_in(3)) s.set("parallelism.reshard_after_forward", "false");
  if (stage >= 2 && once_in(3)) s.set("parallelism.sync_every_microbatch", "false");
  if (degrees.cp > 1) {
    s.set_word("parallelism.cp_attention", one_of({"ring", "all_gather", "ulysses", "two_level"}));
  }
}

// Verified in fp64 alone: replicas that train apart, late gradients, compressed gradients.
void draw_other_algorithm(DrawnScenario& s, const Degrees& degrees) {
  const bool is_plain = degrees.ranks() == degrees.dp_replicate * degrees.dp_shard;
  if (is_plain && once_in(2)) {
    s.set("parallelism.zero_stage", 0);
    s.set_word("parallelism.gradient_compression", one_of({"top_k", "int8"}));
  } else if (degrees.dp_replicate > 1) {
    s.set_word("parallelism.data_parallel", one_of({"local_sgd", "diloco"}));
    s.set("parallelism.sync_period", number_of({1, 2}));
  } else {
    s.set("parallelism.zero_stage", number_of({0, 1}));
    s.set_word("parallelism.data_parallel", "async_sgd");
    s.set("execution.steps", 3);
  }
  for (const std::string field :
       {"parallelism.reshard_after_forward", "parallelism.sync_every_microbatch",
        "training.loss_scaling", "training.loss_scale", "training.grad_reduce_dtype",
        "training.optimizer_state_dtype"}) {
    s.erase(field);
  }
  s.set_word("training.precision", "fp64");
}

void draw_offloading(DrawnScenario& s) {
  s.set("system.device.host_bandwidth_gb_per_s", 10);
  s.set("parallelism.offload_optimizer", "true");
  const std::string stage = s.get("parallelism.zero_stage");
  if (stage >= "2") s.set("parallelism.offload_gradients", "true");
  if (stage == "3") s.set("parallelism.offload_parameters", "true");
}

void set_degrees(DrawnScenario& s, const Degrees& degrees) {
  s.set("parallelism.tp", degrees.tp);
  s.set("parallelism.pp", degrees.pp);
  s.set("parallelism.cp", degrees.cp);
  s.set("parallelism.dp_replicate", degrees.dp_replicate);
  s.set("parallelism.dp_shard", degrees.dp_shard);
}

// --- Training ----------------------------------------------------------------------------------

void draw_batch(DrawnScenario& s, const Degrees& degrees) {
  // Some schedules want a multiple of the pipeline's ranks, others twice as many.
  const std::int64_t microbatches =
      degrees.pp == 1 ? number_of({1, 2, 3}) : degrees.pp * number_of({2, 3});
  const std::int64_t size = number_of({1, 1, 2, 4});
  s.set("training.micro_batch_size", size);
  s.set("training.global_batch_size",
        size * microbatches * degrees.dp_replicate * degrees.dp_shard);
  if (once_in(3)) s.set("training.ignore_fraction", "0.2");
}

void draw_training(DrawnScenario& s, const std::string& family) {
  static const Words kPrecisions = {"fp64", "fp32", "bf16", "fp16"};
  const std::string precision = one_of(kPrecisions);
  const std::string reduced = once_in(2) ? one_of(kPrecisions) : precision;
  s.set_word("training.precision", precision);
  if (reduced != precision) s.set_word("training.grad_reduce_dtype", reduced);
  s.set_word("training.optimizer", one_of({"sgd", "momentum", "adam", "adamw", "rmsprop", "lion"}));
  // Lion moves a key's bias, whose gradient is rounding, by its sign: no other order of sums
  // agrees.
  if (family == "gpt2" && s.get("training.optimizer") == "\"lion\"") {
    s.set_word("training.optimizer", "adamw");
  }
  if (precision == "fp64" && s.get("training.optimizer") != "\"sgd\"" && once_in(3)) {
    s.set_word("training.optimizer_state_dtype", one_of({"bf16", "fp32"}));
  }
  if (once_in(4)) s.set("training.weight_decay", "0.1");
  if (once_in(3)) s.set("training.max_grad_norm", one_of({"1", "0.05"}));
  const bool is_clipped = !s.get("training.max_grad_norm").empty();
  if (is_clipped && once_in(4)) s.set_word("training.grad_norm_type", "inf");
  if (precision == "fp16" || reduced == "fp16") {
    // The default scale would overflow in each of so few steps.
    s.set_word("training.loss_scaling", one_of({"dynamic", "static"}));
    s.set("training.loss_scale", number_of({64, 1024, 4096}));
  }
  if (family == "mlp") return;
  if (once_in(4)) s.set_word("training.recompute", one_of({"selective", "full"}));
  if (s.get("training.recompute") == "\"selective\"" && once_in(2)) {
    s.set_word("training.recompute_modules",
               one_of({"core_attn", "mlp", "moe", "layernorm,mlp,shared_experts",
                       "mla_up_proj,core_attn,moe_act"}));
  }
  if (once_in(6)) s.set("training.hidden_dropout", "0.2");
  if (once_in(6)) s.set_word("training.activation_store", "e4m3");
  if (once_in(8)) {
    s.set("parallelism.offload_layers", number_of({1, 2}));
    if (once_in(3)) s.set_word("parallelism.offload_modules", "attn_norm,core_attn");
    s.set("parallelism.offload_min_elements", number_of({1, 64}));
    s.set("system.device.host_bandwidth_gb_per_s", 10);
  }
}

// Products in 8 bits beside fp64, with scales for whole tensors: widths are not those of blocks.
// The rank of a copied key or value head has a share of its gradient alone.
void draw_low_products(DrawnScenario& s, const Degrees& degrees, const std::string& family) {
  if (s.get("training.precision") != "\"fp64\"" || family == "mlp" || !once_in(3)) return;
  const std::string groups = s.get("model.num_query_groups");
  if (family == "llama" && std::stoll(groups.empty() ? "0" : groups) < degrees.tp) return;
  const bool is_other = !s.get("parallelism.data_parallel").empty() ||
                        !s.get("parallelism.gradient_compression").empty() ||
                        !s.get("training.grad_reduce_dtype").empty();
  s.set_word("training.fp8_recipe", is_other ? "tensorwise" : one_of({"tensorwise", "delayed"}));
  if (s.get("training.fp8_recipe") != "\"delayed\"") return;
  s.set("training.amax_history_len", number_of({1, 2, 3}));
  s.set_word("training.amax_compute", one_of({"most_recent", "max"}));
  const bool runs_again = !s.get("training.recompute").empty();
  if (!runs_again && once_in(2)) s.set_word("training.amax_update", "microbatch");
}

void set_machine(DrawnScenario& s, std::int64_t ranks) {
  const bool goes_over_nodes = !s.get("parallelism.expert_dispatch").empty();
  const std::int64_t nodes = goes_over_nodes && ranks % 2 == 0 ? number_of({1, 2}) : 1;
  s.set("system.nodes", nodes);
  s.set("system.gpus_per_node", ranks / nodes);
  for (const std::string link : {"system.intra_node", "system.inter_node"}) {
    s.set(link + ".bandwidth_gb_per_s", 100);
    s.set(link + ".latency_us", 2);
  }
  s.set("system.device.memory_gib", 1);
  s.set("system.device.memory_bandwidth_gb_per_s", 1000);
  s.set("system.device.memory_efficiency", "0.8");
  s.set("system.device.matmul_efficiency", "0.7");
  s.set("system.device.kernel_launch_us", 2);
  for (const std::string precision : {"fp64", "fp32", "bf16", "fp16", "fp8"}) {
    s.set("system.device.peak_tflops." + precision, 10);
  }
}

// REQUIRES: the model, recomputation and offloading are drawn.
void draw_host(DrawnScenario& s, const std::string& kind) {
  if (!once_in(4)) return;
  s.set("system.host_us_per_kernel", 5);
  const bool captures =
      s.get("training.recompute").empty() && s.get("parallelism.offload_layers").empty();
  if (!captures || once_in(3)) return;
  if (kind == "experts") {
    s.set_word("system.cuda_graphs", one_of({"attn,moe_router", "moe_router"}));
  } else {
    s.set_word("system.cuda_graphs",
               kind == "mlp" ? "full_iteration" : one_of({"full_iteration", "attn,mlp"}));
  }
}

// --- Text --------------------------------------------------------------------------------------

struct Node {
  std::string value;
  std::map<std::string, Node> members;
};

void write(const Node& node, const std::string& indent, std::string& text) {
  if (node.members.empty()) {
    text += node.value;
    return;
  }
  const char* separator = "{\n";
  for (const auto& [key, member] : node.members) {
    text.append(separator).append(indent + "  \"" + key + "\": ");
    write(member, indent + "  ", text);
    separator = ",\n";
  }
  text.append("\n").append(indent + "}");
}

}  // namespace

std::string DrawnScenario::get(const std::string& field) const {
  const auto found = fields_.find(field);
  return found == fields_.end() ? "" : found->second;
}

std::string DrawnScenario::text() const {
  Node root;
  for (const auto& [field, value] : fields_) {
    Node* node = &root;
    std::size_t begin = 0;
    while (begin <= field.size()) {
      const std::size_t end = std::min(field.find('.', begin), field.size());
      node = &node->members[field.substr(begin, end - begin)];
      begin = end + 1;
    }
    node->value = value;
  }
  std::string text;
  write(root, "", text);
  return text + "\n";
}

DrawnScenario draw_verify_scenario() {
  DrawnScenario s;
  s.set("schema_version", 1);
  s.set_word("name", "drawn");
  const std::string kind = one_of({"mlp", "gpt2", "llama", "experts"});
  const std::string family = kind == "experts" ? "llama" : kind;
  s.set_word("model.family", family);
  const Degrees degrees = draw_degrees(family);
  set_degrees(s, degrees);
  set_machine(s, degrees.ranks());
  const bool sequence_parallel =
      degrees.tp > 1 && kind != "mlp" && (kind == "experts" || once_in(2));
  if (sequence_parallel) {
    s.set("parallelism.sequence_parallel", "true");
    if (once_in(3)) s.set("parallelism.overlap_tensor_parallel", "true");
  }
  const std::int64_t layers = draw_schedule(s, degrees.pp) + (once_in(3) ? 1 : 0);
  if (kind == "mlp") {
    draw_mlp(s, degrees, layers);
  } else {
    draw_transformer(s, family, degrees, layers);
    if (kind == "experts") draw_experts(s, degrees, sequence_parallel);
  }
  draw_sharding(s, degrees);
  draw_batch(s, degrees);
  draw_training(s, family);
  s.set_word("execution.tensors", "real");
  s.set("execution.steps", number_of({1, 2, 3}));
  s.set("execution.seed", draw_in(1, 1000000));
  if (once_in(4)) s.set_word("execution.reduction_order", "ring");
  if (kind != "experts" && once_in(16)) {
    draw_other_algorithm(s, degrees);
  } else if (once_in(10)) {
    draw_offloading(s);
  }
  draw_low_products(s, degrees, family);
  draw_host(s, kind);
  return s;
}

}  // namespace shardsim::test
