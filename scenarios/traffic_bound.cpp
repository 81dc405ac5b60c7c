#include "scenarios/traffic_bound.hpp"

#include <algorithm>

#include "scenarios/checked_product.hpp"
#include "scenarios/model_size.hpp"

// On a ring or a tree of N ranks an all_reduce of n elements sends 2 (N-1) n in all, a gather or a
// scatter (N-1) n (reference: sections 2.1 to 2.4 of the specification's contracts). h, L, s, V: of
// the model; b: samples of a microbatch; t, p: degrees; M: microbatches of a rank and step.
namespace shardsim {
namespace {

using Count = std::optional<std::int64_t>;

constexpr std::int64_t kBytesPerElement = 8;  // The widest dtype.
// Sums of norms, losses, token counts and votes, in bytes per rank and step: a handful of numbers.
constexpr std::int64_t kScalarBytes = 1024;

// Elements per token that a module hands to the next; for a perceptron, its widest row.
std::int64_t width_of(const ModelSpec& m) {
  if (m.family != ModelFamily::mlp) return m.hidden_size;
  return std::max({m.hidden_size, m.ffn_hidden_size, m.vocab_size});
}

Count in_bytes(const Count& some, const Count& more) {
  const Count elements = some && more ? sum_if_fits({*some, *more}) : std::nullopt;
  return elements ? product_if_fits({kBytesPerElement, *elements}) : std::nullopt;
}

// `per_token` elements of every token of all steps and data-parallel ranks.
Count of_tokens(const Scenario& s, std::int64_t per_token) {
  return product_if_fits({per_token, s.training.micro_batch_size, s.model.seq_len,
                          s.training.num_microbatches, s.parallelism.data_parallel_size(),
                          s.execution.steps});
}

// A reduction and two gathers (stage 3) of at most the whole model by every rank. An all_reduce is
// two of the three, and hybrid sharding's two levels are together less than three.
Count data_parallel_bytes(const Scenario& s) {
  const ParallelismSpec& p = s.parallelism;
  if (p.gradient_ranks() == 1) return 0;
  // Top-k sends from each rank to each: at most as many elements, with places. Two copies in bytes
  // with scales are less than an element three times.
  const bool to_all = p.compression.kind == CompressionKind::top_k;
  const std::int64_t copies = to_all ? 2 * p.data_parallel_size() : 3;
  // Ranks that join get weights and up to two states, in 8 bytes at most.
  const std::int64_t joins = p.is_elastic() ? 3 : 0;
  const bool each_microbatch = p.zero_stage == 3 || p.sync_every_microbatch;
  return product_if_fits({(copies + joins) * kBytesPerElement, num_parameters(s.model),
                          s.system.ranks, each_microbatch ? s.training.num_microbatches : 1,
                          s.execution.steps});
}

// Per layer 4 all_reduces and 2 more with full recomputation, 12 b s h for each other rank. With
// sequence parallelism 4 gathers and 4 scatters, 2 gathers again, 4 recomputed, 14 b s h. Embedding
// and head: 4 or 5. Cross entropy: 3 all_reduces of a number per token. Once a step, with sequence
// parallelism, an all_reduce of all unsplit parameters: norms, biases, positions, at most 16 h per
// layer.
Count tensor_parallel_bytes(const Scenario& s) {
  const ModelSpec& m = s.model;
  const std::int64_t t = s.parallelism.tp;
  if (t == 1) return 0;
  const Count per_token = product_if_fits({t - 1, (14 * m.num_layers + 5) * width_of(m) + 6});
  const Count activations = per_token ? of_tokens(s, *per_token) : std::nullopt;
  // Experts are whole on every rank, too, where they are not shared; their number was checked.
  const std::int64_t experts =
      m.num_experts * m.num_layers * m.hidden_size * (1 + 3 * m.moe_ffn_hidden_size);
  const std::int64_t whole =
      (16 * (m.num_layers + 1) + m.max_position_embeddings) * m.hidden_size + experts;
  const Count replicated =
      product_if_fits({2 * (t - 1), whole, s.parallelism.gradient_ranks(), s.execution.steps});
  return in_bytes(activations, replicated);
}

// Each boundary, once forward and once backward, by each tensor-parallel rank; once a step, the sum
// of two copies of tied embeddings.
Count pipeline_bytes(const Scenario& s) {
  const ModelSpec& m = s.model;
  const ParallelismSpec& p = s.parallelism;
  if (p.pp == 1) return 0;
  const Count per_token = product_if_fits({2 * (p.pp * p.vpp - 1), p.tp, width_of(m)});
  const Count activations = per_token ? of_tokens(s, *per_token) : std::nullopt;
  const Count tied = product_if_fits(
      {2 * (m.vocab_size + p.tp), m.hidden_size, p.gradient_ranks(), s.execution.steps});
  return in_bytes(activations, tied);
}

// Per layer, of every token: keys and values to every other rank, forward and, with full
// recomputation, again; and backward with their gradients: 8 elements of each. Or, or within
// groups, an exchange of q, k, v and of y, forward, again and backward.
Count context_parallel_bytes(const Scenario& s) {
  const ModelSpec& m = s.model;
  const std::int64_t c = s.parallelism.cp;
  if (c == 1) return 0;
  const std::int64_t keys = m.hidden_size / m.num_attention_heads * m.num_query_groups;
  const Count round = product_if_fits({8 * (c - 1), keys, m.num_layers});
  const Count exchanged = product_if_fits({6, m.hidden_size + keys, m.num_layers});
  const Count per_token = round && exchanged ? sum_if_fits({*round, *exchanged}) : std::nullopt;
  return in_bytes(per_token ? of_tokens(s, *per_token) : std::nullopt, 0);
}

// Per layer and slot of a token two round trips, a third one with full recomputation. With a
// capacity, at most as many rows as it makes room for. Counts of tokens per expert.
Count expert_bytes(const Scenario& s) {
  const ModelSpec& m = s.model;
  if (m.num_experts == 0) return 0;
  const auto room = static_cast<std::int64_t>(m.moe_capacity_factor) + 2;
  const Count per_token =
      product_if_fits({6 * room, m.num_layers, m.num_experts_per_token, m.hidden_size});
  const Count rows = per_token ? of_tokens(s, *per_token) : std::nullopt;
  const Count counts = product_if_fits({16 * m.num_experts, m.num_layers, s.system.ranks,
                                        s.training.num_microbatches, s.execution.steps});
  return in_bytes(rows, counts);
}

}  // namespace

TrafficBound traffic_bound(const Scenario& scenario) {
  TrafficBound bound{data_parallel_bytes(scenario), tensor_parallel_bytes(scenario),
                     pipeline_bytes(scenario),      context_parallel_bytes(scenario),
                     expert_bytes(scenario),        std::nullopt};
  const Count scalars =
      product_if_fits({kScalarBytes, scenario.system.ranks, scenario.execution.steps});
  if (bound.data_parallel && bound.tensor_parallel && bound.pipeline && bound.context_parallel &&
      bound.experts && scalars) {
    bound.total = sum_if_fits({*bound.data_parallel, *bound.tensor_parallel, *bound.pipeline,
                               *bound.context_parallel, *bound.experts, *scalars});
  }
  return bound;
}

}  // namespace shardsim
