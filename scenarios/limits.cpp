#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>

#include "strategies/gradient_sync/compressors.hpp"
#include "strategies/optimizer/rules.hpp"
#include "strategies/pipeline/schedule.hpp"

#include "scenarios/linear_spec.hpp"
#include "scenarios/resolve.hpp"

namespace shardsim {

namespace {

// The bound on traffic. On a ring or a tree of N ranks an all_reduce of n elements sends 2 (N-1) n
// in all, a gather or a scatter (N-1) n (reference: sections 2.1 to 2.4 of the specification's
// contracts). h, L, s, V: of the model; b: samples of a microbatch; t, p: degrees; M: microbatches
// of a rank and step.

constexpr std::int64_t kBytesPerElement = 8;  // The widest dtype.
// Sums of norms, losses, token counts and votes, in bytes per rank and step: a handful of numbers.
constexpr std::int64_t kScalarBytes = 1024;

// Elements per token that a module hands to the next; for a perceptron, its widest row.
std::int64_t width_of(const ModelSpec& m) {
  if (m.family != ModelFamily::mlp) return m.hidden_size;
  return std::max({m.hidden_size, m.ffn_hidden_size, m.vocab_size});
}

// The most of some layer: query heads, key heads, and elements of a head.
struct MostHeads {
  explicit MostHeads(const ModelSpec& m) {
    for (const HeadOptions& heads : m.kinds_of_heads()) {
      queries = std::max(queries, heads.num_attention_heads);
      keys = std::max(keys, heads.num_query_groups);
      fewest_keys = std::min(fewest_keys, heads.num_query_groups);
      size = std::max({size, heads.head_dim, heads.value_head_dim});
    }
  }
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t fewest_keys = std::numeric_limits<std::int64_t>::max();
  std::int64_t size = 0;
};

// Elements per token of latents and of the part of keys beside them, before and behind norms.
std::int64_t latents_of(const ModelSpec& m) {
  return m.is_latent() ? 2 * (m.q_lora_rank + m.kv_lora_rank) + m.qk_rope_head_dim : 0;
}

// The larger of a token's elements and of its latent's, for experts.
std::int64_t row_of(const ModelSpec& m) { return std::max(m.hidden_size, m.moe_latent_size); }

Count in_bytes(const Count& some, const Count& more) {
  return product_if_fits({kBytesPerElement, sum_if_fits({some, more})});
}

// `per_token` elements of every token of all steps and data-parallel ranks.
Count of_tokens(const Scenario& s, const Count& per_token) {
  return product_if_fits({per_token, s.training.micro_batch_size, s.model.seq_len,
                          s.training.num_microbatches, s.parallelism.data_parallel_size(),
                          s.execution.steps});
}

// A reduction and two gathers (stage 3) of at most the whole model by every rank. An all_reduce is
// two of the three, and hybrid sharding's two levels are together less than three.
Count data_parallel_bytes(const Scenario& s) {
  const ParallelismSpec& p = s.parallelism;
  if (p.gradient_ranks() == 1) return 0;
  // A parcel from each rank to each has at most as many elements, with places. Two copies in bytes
  // with scales are less than an element three times.
  const bool to_all = p.compresses() && p.compression.compressor->route.to_all;
  const std::int64_t copies = to_all ? 2 * p.data_parallel_size() : 3;
  // Ranks that join get weights and up to two states, in 8 bytes at most.
  const std::int64_t joins = p.is_elastic() ? 3 : 0;
  const bool each_microbatch = p.zero_stage == 3 || p.sync_every_microbatch;
  return product_if_fits({(copies + joins) * kBytesPerElement, all_parameters(s.model),
                          s.system.ranks, each_microbatch ? s.training.num_microbatches : 1,
                          s.execution.steps});
}

// A depth of multi-token prediction has a block, an embedding, a head, and a projection of two
// widths: less than two layers more.
std::int64_t layers_of(const ModelSpec& m) { return m.num_layers + 3 * m.mtp_num_layers; }

// Muon among tensor-parallel ranks, each step and replica: matrices of blocks are gathered, or the
// sums of Gram matrices of the width, of up to 8 matrices of a block.
Count muon_bytes(const Scenario& s) {
  const ModelSpec& m = s.model;
  if (!s.training.uses_muon() || s.parallelism.tp == 1) return 0;
  constexpr std::int64_t kMatrices = 8;
  const MostHeads most(m);
  const std::int64_t h = width_of(m) + latents_of(m);
  const Count grams = product_if_fits({kMatrices, 2 * s.training.muon.num_steps, h, h});
  const Count gathered = product_if_fits(
      {h, most.size * (3 * most.queries + 2 * most.keys) +
              3 * (m.ffn_hidden_size + m.moe_shared_ffn_hidden_size) + most_kept_by_mixers(m)});
  const Count of_block = sum_if_fits({grams, gathered, kMatrices});
  if (!of_block) return std::nullopt;
  return in_bytes(product_if_fits({s.parallelism.tp - 1, layers_of(m), *of_block,
                                   s.parallelism.gradient_ranks(), s.execution.steps}),
                  0);
}

// Per layer 4 all_reduces and 2 more with full recomputation, 12 b s h for each other rank. With
// sequence parallelism 4 gathers and 4 scatters, 2 gathers again, 4 recomputed, 14 b s h. Embedding
// and head: 4 or 5. Cross entropy: 3 all_reduces of a number per token. Once a step, with sequence
// parallelism, an all_reduce of all unsplit parameters: norms, biases, positions, at most 22 h per
// layer, and down projections of latents; and copies of key and value heads.
Count tensor_parallel_bytes(const Scenario& s) {
  const ModelSpec& m = s.model;
  const MostHeads most(m);
  const std::int64_t t = s.parallelism.tp;
  if (t == 1) return 0;
  const Count per_token = product_if_fits(
      {t - 1, (14 * layers_of(m) + 5) * width_of(m) + 14 * layers_of(m) * latents_of(m) + 6});
  const Count activations = of_tokens(s, per_token);
  // Experts are whole on every rank, too, where they are not shared; their number was checked.
  const std::int64_t experts =
      m.num_experts * layers_of(m) *
      (row_of(m) * (2 + 3 * m.moe_ffn_hidden_size) + 2 * m.moe_ffn_hidden_size + 1);
  // Norms of DeltaNet are shared by heads.
  const std::int64_t whole =
      (22 * (layers_of(m) + 1) + m.max_position_embeddings) * m.hidden_size +
      layers_of(m) * (latents_of(m) * (m.hidden_size + 1) + m.delta_net.value_size +
                      2 * m.hidden_size * m.moe_latent_size) +
      experts + (most.fewest_keys < t ? layers_of(m) * 2 * most.size * (m.hidden_size + 2) : 0);
  const Count replicated =
      product_if_fits({2 * (t - 1), whole, s.parallelism.gradient_ranks(), s.execution.steps});
  return sum_if_fits({in_bytes(activations, replicated), muon_bytes(s)});
}

// Each boundary, once forward and once backward, by each tensor-parallel rank; once a step, the sum
// of two copies of tied embeddings.
Count pipeline_bytes(const Scenario& s) {
  const ModelSpec& m = s.model;
  const ParallelismSpec& p = s.parallelism;
  if (p.pp == 1) return 0;
  const Count per_token = product_if_fits({2 * (p.pp * p.vpp - 1), p.tp, width_of(m)});
  const Count activations = of_tokens(s, per_token);
  const Count tied = product_if_fits(
      {2 * (m.vocab_size + p.tp), m.hidden_size, p.gradient_ranks(), s.execution.steps});
  return in_bytes(activations, tied);
}

// Per layer, of every token: keys and values to every other rank, forward and, with full
// recomputation, again; and backward with their gradients: 8 elements of each. Or, or within
// groups, an exchange of q, k, v and of y, forward, again and backward. Recurrences exchange what
// they read and return.
Count context_parallel_bytes(const Scenario& s) {
  const ModelSpec& m = s.model;
  const std::int64_t c = s.parallelism.cp;
  if (c == 1) return 0;
  const MostHeads most(m);
  const std::int64_t queries = most.size * most.queries;
  const std::int64_t keys = most.size * std::max(most.keys, s.parallelism.tp);  // Copies.
  const Count round = product_if_fits({8 * (c - 1), keys, layers_of(m)});
  const Count exchanged =
      product_if_fits({6 * (queries + keys) + most_sent_by_mixers(m, c), layers_of(m)});
  return in_bytes(of_tokens(s, sum_if_fits({round, exchanged})), 0);
}

// Per layer and slot of a token two round trips, a third one with full recomputation. With a
// capacity, at most as many rows as it makes room for. Counts of tokens per expert.
Count expert_bytes(const Scenario& s) {
  const ModelSpec& m = s.model;
  if (m.num_experts == 0) return 0;
  const auto room = static_cast<std::int64_t>(m.moe_capacity_factor) + 2;
  const Count per_token =
      product_if_fits({6 * room, layers_of(m), m.num_experts_per_token, row_of(m)});
  const Count counts = product_if_fits({16 * m.num_experts, layers_of(m), s.system.ranks,
                                        s.training.num_microbatches, s.execution.steps});
  return in_bytes(of_tokens(s, per_token), counts);
}

constexpr std::int64_t kBytesPerValue = 8;  // real tensors are computed in fp64

std::string gib(std::int64_t bytes) {
  // One decimal, rounded up, so that what is refused never reads as equal to the limit.
  const std::int64_t tenths =
      bytes / (std::int64_t{1} << 30) * 10 + (bytes % (std::int64_t{1} << 30) * 10 >> 30) + 1;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GiB";
}

// Rows of tokens in experts: one per slot, and where they have a capacity, all that it makes room
// for. A row has about 4 tensors of the model's width and 4 of an expert's.
Count expert_values(const ModelSpec& m, std::int64_t samples) {
  if (m.num_experts == 0) return 0;
  const auto room = static_cast<std::int64_t>(m.moe_capacity_factor) + 2;
  const auto per_slot =
      product_if_fits({room, m.num_experts_per_token,
                       4 * row_of(m) + 4 * m.moe_ffn_hidden_size + 3 * m.num_experts});
  const Count shared = 4 * m.moe_shared_ffn_hidden_size + m.hidden_size + 2 * m.moe_latent_size;
  const Count per_token = sum_if_fits({per_slot, shared});
  if (!per_token) return std::nullopt;
  return product_if_fits({samples, m.seq_len, layers_of(m), *per_token});
}

// Bounds the values kept from forward to backward for `samples` sequences. A transformer block
// keeps about 12 tensors of its width, 4 of the inner width and 2 matrices of attention scores.
Count activation_values(const ModelSpec& m, std::int64_t samples) {
  const MostHeads most(m);
  const std::int64_t width = std::max(m.hidden_size, most.size * most.queries);
  const auto widths = product_if_fits(
      {layers_of(m), 12 * width + latents_of(m) + 4 * m.ffn_hidden_size + most_kept_by_mixers(m)});
  const auto layers = product_if_fits({samples, m.seq_len, widths});
  const auto scores =
      product_if_fits({2, samples, layers_of(m), most.queries, m.seq_len, m.seq_len});
  const auto logits = product_if_fits({3, samples, m.seq_len, m.vocab_size});
  return sum_if_fits({layers, scores, logits, expert_values(m, samples)});
}

// Blocks of keys and values that a rank's attention computes with one after the other.
std::int64_t blocks_of_ring(const ParallelismSpec& p) {
  const bool is_ring = context_attention_row(p.cp_attention).passes_keys_around;
  return is_ring ? p.cp / p.cp_ulysses_degree : 1;
}

void check_operations(Reading& r) {
  const Scenario& s = r.scenario;
  const std::int64_t blocks = blocks_of_ring(s.parallelism);
  const std::int64_t most_run = std::min(s.system.ranks, r.limits.max_ranks);
  const auto operations = product_if_fits(
      {most_run, layers_of(s.model), s.training.num_microbatches, s.execution.steps, blocks});
  if (!operations || *operations > r.limits.max_operations) {
    r.problem("E0354", "training.global_batch_size",
              "ranks (" + std::to_string(most_run) + ") x layers (" +
                  std::to_string(s.model.num_layers) + ") x microbatches (" +
                  std::to_string(s.training.num_microbatches) + ") x steps (" +
                  std::to_string(s.execution.steps) + ")" +
                  (blocks > 1 ? " x blocks of a ring (" + std::to_string(blocks) + ")" : "") +
                  " is " + (operations ? std::to_string(*operations) : "beyond 64 bits") +
                  "; the limit is " + std::to_string(r.limits.max_operations),
              "use a smaller batch or fewer steps");
  }
}

// A list holds the work of a pipeline rank. One stage has a list, too: its microbatches in turn.
void check_schedule_size(Reading& r) {
  const ParallelismSpec& p = r.scenario.parallelism;
  const std::int64_t microbatches = r.scenario.training.num_microbatches;
  const auto forwards = product_if_fits({p.pp, p.vpp, microbatches});
  if (forwards && *forwards <= kMaxForwards) return;
  r.problem("E0355", "training.global_batch_size",
            "pp (" + std::to_string(p.pp) + ") x vpp (" + std::to_string(p.vpp) +
                ") x microbatches (" + std::to_string(microbatches) + ") is " +
                (forwards ? std::to_string(*forwards) : "beyond 64 bits") +
                " forwards in a step's schedule; the limit is " + std::to_string(kMaxForwards),
            "use a larger micro_batch_size or a smaller batch");
}

// Checks for fields with which ranks neither fold nor share programs and that are known without a
// plan; the run finds the rest.
void check_sharing(Reading& r) {
  const Scenario& s = r.scenario;
  if (s.system.ranks <= r.limits.max_ranks) return;
  const ParallelismSpec& p = s.parallelism;
  std::string field;
  if (s.model.num_experts > 0 && s.execution.engine == "run") field = "model.num_experts";
  if (p.is_elastic() || p.changes_algorithm()) field = "parallelism.data_parallel";
  if (p.compresses()) field = "parallelism.gradient_compression";
  if (field.empty()) return;
  r.problem("E0351", field,
            "each rank must run with this, and of " + std::to_string(s.system.ranks) + " at most " +
                std::to_string(r.limits.max_ranks) + " can",
            "use fewer nodes, or leave it out");
}

// Sizes and work are counted in 64 bits; the largest of each must fit.
void check_products(Reading& r) {
  const Scenario& s = r.scenario;
  const ModelSpec& m = s.model;
  const std::int64_t parameters = all_parameters(m);
  const MostHeads most(m);
  const std::int64_t heads = most.size * most.queries;
  const std::int64_t widest =
      std::max({m.hidden_size, heads, m.ffn_hidden_size, m.vocab_size, most_kept_by_mixers(m)});
  const std::int64_t samples = s.training.micro_batch_size;
  const std::array<Count, 5> counts = {
      product_if_fits({kBytesPerValue, samples, m.seq_len, widest}),
      product_if_fits({kBytesPerValue, samples, most.queries, m.seq_len, m.seq_len}),
      product_if_fits({6, parameters, samples, m.seq_len}),
      product_if_fits({12, layers_of(m), heads, samples, m.seq_len, m.seq_len}),
      activation_values(m, samples)};
  if (std::find(counts.begin(), counts.end(), std::nullopt) != counts.end()) {
    r.problem("E0353", "training.micro_batch_size",
              "one microbatch of this model counts more than 64 bits can hold",
              "use a shorter seq_len, a smaller micro-batch or a smaller model");
  }
}

void check_traffic(Reading& r) {
  struct Part {
    Count bytes;
    const char* field;
    std::string whose;
  };
  const TrafficBound bound = traffic_bound(r.scenario);
  for (const Part& part : {Part{bound.tensor_parallel, "parallelism.tp", "tensor-parallel "},
                           Part{bound.context_parallel, "parallelism.cp", "context-parallel "},
                           Part{bound.pipeline, "parallelism.pp", "pipeline "},
                           Part{bound.experts, "model.num_experts", "experts' "},
                           Part{bound.data_parallel, "execution.steps", "data-parallel "},
                           Part{bound.total, "execution.steps", ""}}) {
    if (part.bytes) continue;
    return r.problem("E0353", part.field,
                     "the " + part.whose +
                         "traffic of all ranks and steps counts more bytes than 64 bits can hold",
                     "use fewer steps, microbatches or ranks");
  }
}

void check_host_memory(Reading& r) {
  const Scenario& s = r.scenario;
  if (s.execution.tensors != TensorMode::real) return;
  // Weights, gradients, one gathered or reduced copy, and the optimizer's state; one rank more is
  // the reference, which runs the whole batch.
  const std::int64_t copies =
      3 + std::ssize(optimizer_rule(s.training.elementwise_optimizer()).state_names);
  const auto state =
      product_if_fits({s.system.ranks + 1, all_parameters(s.model), copies, kBytesPerValue});
  const Count all_ranks =
      product_if_fits({s.system.ranks, activation_values(s.model, s.training.micro_batch_size)});
  const Count reference = activation_values(s.model, s.training.global_batch_size);
  const Count activations = product_if_fits({sum_if_fits({all_ranks, reference}), kBytesPerValue});
  const Count total = sum_if_fits({state, activations});
  if (total && *total <= r.limits.max_host_memory_bytes) return;
  std::string sum = "more than 64 bits can count";
  if (total) {
    sum = "about " + gib(*total) + " of host memory: " + gib(*state) +
          " of parameters, gradients " + "and optimizer state (" + std::to_string(s.system.ranks) +
          " ranks and a reference) and " + gib(*activations) + " of activations; the limit is " +
          gib(r.limits.max_host_memory_bytes - 1);
  }
  r.problem("E0352", "execution.tensors", "real tensors would take " + sum,
            "set \"tensors\": \"meta\" to plan, or use a smaller model, batch or machine");
}

}  // namespace

TrafficBound traffic_bound(const Scenario& scenario) {
  TrafficBound bound{data_parallel_bytes(scenario), tensor_parallel_bytes(scenario),
                     pipeline_bytes(scenario),      context_parallel_bytes(scenario),
                     expert_bytes(scenario),        std::nullopt};
  bound.total = sum_if_fits(
      {bound.data_parallel, bound.tensor_parallel, bound.pipeline, bound.context_parallel,
       bound.experts,
       product_if_fits({kScalarBytes, scenario.system.ranks, scenario.execution.steps})});
  return bound;
}

std::int64_t max_ranks_of(const Reading& r) {
  const ExecutionSpec& execution = r.scenario.execution;
  const bool may_fold = r.good("execution.fold") && execution.fold != "off";
  const bool may_replay = r.good("execution.engine") && execution.engine != "run";
  const bool is_plan = execution.tensors == TensorMode::meta && execution.backend == "fiber";
  return is_plan && (may_fold || may_replay) ? std::max(r.limits.max_plan_ranks, r.limits.max_ranks)
                                             : r.limits.max_ranks;
}

void check_limits(Reading& r) {
  if (!r.problems.empty()) return;
  check_sharing(r);
  check_operations(r);
  check_schedule_size(r);
  check_products(r);
  check_traffic(r);
  check_host_memory(r);
}

}  // namespace shardsim
