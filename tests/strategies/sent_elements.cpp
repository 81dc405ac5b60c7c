#include "tests/strategies/sent_elements.hpp"

#include <algorithm>
#include <stdexcept>

namespace shardsim::test {

namespace {

std::int64_t share(std::int64_t elements, std::int64_t ranks) {
  if (elements % ranks != 0) throw std::logic_error("ranks do not divide a size");
  return elements / ranks;
}

// On a ring each rank passes on all but one of as many equal parts as there are ranks.
std::int64_t gather(std::int64_t elements, std::int64_t ranks) {
  return (ranks - 1) * share(elements, ranks);
}
std::int64_t all_reduce(std::int64_t elements, std::int64_t ranks) {
  return 2 * gather(elements, ranks);
}

// Elements of parameters that are gathered together.
struct Unit {
  std::int64_t cut = 0;     // A tensor-parallel rank has 1/t of these.
  std::int64_t whole = 0;   // It has all of these: norms, biases of rows, positions.
  std::int64_t copied = 0;  // And these of one key and value head, if it shares the head.
  bool used_twice = false;
};

// Tensor-parallel ranks that share a key and value head.
std::int64_t sharing_ranks(const SendingCase& c) {
  return std::max<std::int64_t>(c.mesh.tp / c.model.num_query_groups, 1);
}

Unit block(const ModelOptions& m, bool copies) {
  const std::int64_t h = m.hidden_size;
  const std::int64_t f = m.ffn_hidden_size;
  const std::int64_t of_head = 2 * (h / m.num_attention_heads);
  const std::int64_t qkv = h + (copies ? 0 : m.num_query_groups * of_head);
  if (m.family == "llama") {
    return {.cut = qkv * h + h * h + 3 * h * f, .whole = 2 * h, .copied = copies ? of_head * h : 0};
  }
  // Biases of qkv and up are cut with their rows; those of out and down, and two norms' weights and
  // biases, are not.
  return {.cut = qkv * h + qkv + h * h + 2 * h * f + f, .whole = 2 * h + 4 * h};
}

std::vector<Unit> units_of(const SendingCase& c, const MeshPlace& at) {
  const ModelOptions& m = c.model;
  const bool first = at.pp == 0;
  const bool last = at.pp == c.mesh.pp - 1;
  const bool is_gpt = m.family == "gpt2";
  const std::int64_t table = m.vocab_size * m.hidden_size;
  const std::int64_t positions = is_gpt ? m.max_position_embeddings * m.hidden_size : 0;
  const std::int64_t norm = (is_gpt ? 2 : 1) * m.hidden_size;
  std::vector<Unit> units(
      static_cast<std::size_t>(c.stage_layers.at(static_cast<std::size_t>(at.pp))),
      block(m, sharing_ranks(c) > 1));
  if (m.tied_embeddings && first && last) {
    units.push_back({.cut = table, .whole = positions + norm, .used_twice = true});
    return units;
  }
  if (first) units.push_back({.cut = table, .whole = positions});
  if (last) units.push_back({.cut = table, .whole = norm});  // Tied: a copy.
  return units;
}

// How often a unit is reduced in a step, and how often it goes once around its shards.
struct DataPasses {
  std::int64_t reductions = 0;
  std::int64_t over_shards = 0;
};

// ZeRO-2 with A microbatches: A reductions and a gather, (A + 1); ZeRO-3: A reductions and 2 A
// gathers, 3 A; else one reduction.
DataPasses passes_of(const SendingCase& c, bool used_twice) {
  const std::int64_t microbatches = c.num_microbatches;
  const std::int64_t reductions = c.zero_stage >= 2 && c.reduce_every_microbatch ? microbatches : 1;
  const std::int64_t gathers = c.zero_stage == 3 ? (used_twice ? 1 : 2) * microbatches : 1;
  return {.reductions = reductions, .over_shards = reductions + gathers};
}

std::int64_t data_parallel(const SendingCase& c, const MeshPlace& at) {
  const std::int64_t shards = c.mesh.num_shards();
  const std::int64_t replicas = c.mesh.dp_replicate;
  std::int64_t sent = 0;
  for (const Unit& unit : units_of(c, at)) {
    const std::int64_t held = share(unit.cut, c.mesh.tp) + unit.whole + unit.copied;
    if (c.zero_stage == 0) {
      sent += all_reduce(held, shards * replicas);
      continue;
    }
    const DataPasses passes = passes_of(c, unit.used_twice);
    sent += passes.over_shards * gather(held, shards);
    sent += passes.reductions * all_reduce(share(held, shards), replicas);
  }
  return sent;
}

std::int64_t tensor_parallel(const SendingCase& c, const MeshPlace& at) {
  const std::int64_t t = c.mesh.tp;
  const bool by_tokens = c.model.sequence_parallel;
  const std::int64_t tokens = c.micro_batch_size * share(c.model.seq_len, c.mesh.cp);
  // Ring passes of a microbatch's activations (an all_reduce is two). A layer has 4 all_reduces; or
  // 4 gathers, 4 reduce_scatters, and 2 gathers again for gradients of weights.
  std::int64_t passes = (by_tokens ? 10 : 8) * c.stage_layers.at(static_cast<std::size_t>(at.pp));
  if (at.pp == 0) passes += 2;  // The embedding: an all_reduce; or a reduce_scatter, and a gather.
  std::int64_t losses = 0;
  if (at.pp == c.mesh.pp - 1) {
    passes += by_tokens ? 3 : 2;  // The head: gather, reduce_scatter, gather again.
    losses = 3 * all_reduce(tokens, t);
  }
  std::int64_t partial_sums = 0;  // At the end of the step, of what the rank owns.
  std::int64_t copied = 0;        // The same, over the ranks that share a head.
  for (const Unit& unit : units_of(c, at)) {
    if (by_tokens) partial_sums += unit.whole;
    copied += unit.copied;
  }
  const std::int64_t owners = c.zero_stage == 0 ? 1 : c.mesh.num_shards();
  const std::int64_t sharing = sharing_ranks(c);
  return c.num_microbatches * (passes * gather(tokens * c.model.hidden_size, t) + losses) +
         all_reduce(share(partial_sums, owners), t) +
         (sharing > 1 ? all_reduce(share(copied, owners), sharing) : 0);
}

std::int64_t pipeline_parallel(const SendingCase& c, const MeshPlace& at) {
  const bool first = at.pp == 0;
  const bool last = at.pp == c.mesh.pp - 1;
  const std::int64_t activation =
      c.micro_batch_size * share(c.model.seq_len, c.mesh.cp) * c.model.hidden_size;
  // Without token shards every tensor-parallel rank sends the whole activation.
  const std::int64_t message = share(activation, c.model.sequence_parallel ? c.mesh.tp : 1);
  std::int64_t sent = c.num_microbatches * message * ((last ? 0 : 1) + (first ? 0 : 1));
  if (c.model.tied_embeddings && first != last) {
    const std::int64_t owners = c.mesh.tp * (c.zero_stage == 0 ? 1 : c.mesh.num_shards());
    sent += all_reduce(share(c.model.vocab_size * c.model.hidden_size, owners), 2);
  }
  return sent;
}

// A layer: with keys and values of h_kv elements, their blocks go round rings of c / u ranks, or
// are gathered, once forward; backward once more, and their gradients: 6 h_kv of c / u - 1 blocks.
// Among u ranks q, k, v and y are exchanged, forward and backward: (u-1) / u of them are others'.
std::int64_t context_parallel(const SendingCase& c, const MeshPlace& at) {
  const ModelOptions& m = c.model;
  const std::int64_t u = ulysses_size(m.context_attention, c.mesh.cp, m.ulysses_degree);
  const std::int64_t tokens = c.micro_batch_size * share(m.seq_len, c.mesh.cp);
  const std::int64_t head = m.head_dim > 0 ? m.head_dim : m.hidden_size / m.num_attention_heads;
  const std::int64_t h = share(m.num_attention_heads * head, c.mesh.tp);
  const std::int64_t groups = std::max<std::int64_t>(m.num_query_groups / c.mesh.tp, 1);
  const std::int64_t kv = groups * head;
  const std::int64_t blocks = 6 * tokens * kv * (c.mesh.cp / u - 1);
  const std::int64_t exchanged = 2 * (u - 1) * share(tokens * (2 * h + 2 * kv), u);
  return c.num_microbatches * c.stage_layers.at(static_cast<std::size_t>(at.pp)) *
         (blocks + exchanged);
}

}  // namespace

SentElements& SentElements::operator+=(const SentElements& other) {
  tp += other.tp;
  pp += other.pp;
  dp += other.dp;
  cp += other.cp;
  return *this;
}

SentElements elements_sent(const SendingCase& c, const MeshPlace& at) {
  return {.tp = tensor_parallel(c, at),
          .pp = pipeline_parallel(c, at),
          .dp = data_parallel(c, at),
          .cp = context_parallel(c, at)};
}

SentElements elements_sent(const SendingCase& c) {
  SentElements sum;
  for (int rank = 0; rank < c.mesh.size(); ++rank) sum += elements_sent(c, c.mesh.place_of(rank));
  return sum;
}

std::int64_t context_elements_sent(const SendingCase& c) {
  std::int64_t sum = 0;
  for (int rank = 0; rank < c.mesh.size(); ++rank) {
    sum += context_parallel(c, c.mesh.place_of(rank));
  }
  return sum;
}

SentElements vocabulary_elements_sent(const SendingCase& c, std::int64_t rows) {
  const std::int64_t table = rows * c.model.hidden_size;
  const bool tied = c.model.tied_embeddings;
  const bool in_one_stage = c.mesh.pp == 1;
  const std::int64_t shards = c.mesh.num_shards();
  const std::int64_t replicas = c.mesh.dp_replicate;
  SentElements sent;
  const std::int64_t tables = tied && in_one_stage ? 1 : 2;
  if (c.zero_stage == 0) {
    sent.dp = tables * 2 * (shards * replicas - 1) * table;
  } else {
    const DataPasses passes = passes_of(c, tied && in_one_stage);
    sent.dp =
        tables * table *
        (passes.over_shards * (shards - 1) * replicas + passes.reductions * 2 * (replicas - 1));
  }
  // Each end of the pipeline sends what it owns once: an all_reduce of two.
  const std::int64_t owners = c.zero_stage == 0 ? shards * replicas : replicas;
  if (tied && !in_one_stage) sent.pp = 2 * owners * table;
  return sent;
}

SentElements elements_sent_of_any_vocabulary(SendingCase c) {
  SentElements sum = vocabulary_elements_sent(c, c.model.vocab_size);
  c.model.vocab_size = 0;
  return sum += elements_sent(c);
}

SentElements vocabulary_padding_sent(const SendingCase& c) {
  const std::int64_t rest = c.model.vocab_size % c.mesh.tp;
  return vocabulary_elements_sent(c, rest == 0 ? 0 : c.mesh.tp - rest);
}

}  // namespace shardsim::test
