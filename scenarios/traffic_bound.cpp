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

// What a module hands the next, per token: of a perceptron, rows of any of its widths.
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

// A reduction and two gathers (stage 3) of at most the whole model by every rank: an all_reduce is
// two of the three, and hybrid sharding's two levels are together less than three.
Count data_parallel_bytes(const Scenario& s) {
  const ParallelismSpec& p = s.parallelism;
  if (p.data_parallel_size() == 1) return 0;
  // What is compressed goes from each rank to each: at most as many elements, with places.
  const std::int64_t copies = p.compresses() ? 2 * p.data_parallel_size() : 3;
  // Those who join get weights and up to two states, in 8 bytes at most.
  const std::int64_t joins = p.is_elastic() ? 3 : 0;
  const bool each_microbatch = p.zero_stage == 3 || p.sync_every_microbatch;
  return product_if_fits({(copies + joins) * kBytesPerElement, num_parameters(s.model),
                          s.system.ranks, each_microbatch ? s.training.num_microbatches : 1,
                          s.execution.steps});
}

// Per layer 4 all_reduces and 2 more with full recomputation, 12 b s h for each other rank; with
// sequence parallelism 4 gathers and 4 scatters, 2 gathers again, 4 recomputed, 14 b s h. Embedding
// and head: 4 or 5. Cross entropy: 3 all_reduces of a number per token. Once a step, with sequence
// parallelism, an all_reduce of what is not split: norms, biases, positions, at most 16 h per
// layer.
Count tensor_parallel_bytes(const Scenario& s) {
  const ModelSpec& m = s.model;
  const std::int64_t t = s.parallelism.tp;
  if (t == 1) return 0;
  const Count per_token = product_if_fits({t - 1, (14 * m.num_layers + 5) * width_of(m) + 6});
  const Count activations = per_token ? of_tokens(s, *per_token) : std::nullopt;
  const std::int64_t whole = (16 * (m.num_layers + 1) + m.max_position_embeddings) * m.hidden_size;
  const Count replicated =
      product_if_fits({2 * (t - 1), whole, s.parallelism.data_parallel_size(), s.execution.steps});
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
      {2 * (m.vocab_size + p.tp), m.hidden_size, p.data_parallel_size(), s.execution.steps});
  return in_bytes(activations, tied);
}

}  // namespace

TrafficBound traffic_bound(const Scenario& scenario) {
  TrafficBound bound{data_parallel_bytes(scenario), tensor_parallel_bytes(scenario),
                     pipeline_bytes(scenario), std::nullopt};
  const Count scalars =
      product_if_fits({kScalarBytes, scenario.system.ranks, scenario.execution.steps});
  if (bound.data_parallel && bound.tensor_parallel && bound.pipeline && scalars) {
    bound.total =
        sum_if_fits({*bound.data_parallel, *bound.tensor_parallel, *bound.pipeline, *scalars});
  }
  return bound;
}

}  // namespace shardsim
