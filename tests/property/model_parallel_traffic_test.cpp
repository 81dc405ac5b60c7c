#include <map>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/strategies/sent_elements.hpp"
#include "tests/strategies/training_case.hpp"

// Bytes of whole training steps under tensor, sequence, context and pipeline parallelism: those of
// every axis, all ranks together, and those of every rank, all axes together, are the formulas'.
namespace shardsim::test {

namespace {

constexpr std::int64_t kBytes = 8;  // fp64

struct TrafficLayout {
  MeshShape mesh;
  bool sequence_parallel = false;
  ContextAttention context_attention = ContextAttention::ring;
};

const std::vector<TrafficLayout> kLayouts = {
    {{.dp_shard = 1, .tp = 2, .pp = 1}, false},
    {{.dp_shard = 2, .tp = 2, .pp = 2}, false},
    {{.dp_shard = 3, .tp = 4, .pp = 1}, false},
    {{.dp_shard = 1, .tp = 2, .pp = 1}, true},
    {{.dp_shard = 2, .tp = 2, .pp = 3}, true},
    {{.dp_shard = 4, .tp = 4, .pp = 2}, true},
    {{.dp_shard = 4, .tp = 1, .pp = 4}, false},
    // HSDP: replicated shards.
    {{.dp_shard = 2, .dp_replicate = 2, .tp = 2, .pp = 1}, false},
    {{.dp_shard = 3, .dp_replicate = 2, .tp = 2, .pp = 1}, true},
    {{.dp_shard = 2, .dp_replicate = 2, .tp = 1, .pp = 3}, false},
    {{.dp_shard = 2, .dp_replicate = 2, .tp = 2, .pp = 2}, true},
    // Samples cut.
    {{.dp_shard = 2, .tp = 2, .cp = 2}, false},
    {{.dp_shard = 2, .cp = 4}, false, ContextAttention::all_gather},
    {{.tp = 2, .pp = 2, .cp = 2}, true, ContextAttention::ulysses},
    {{.dp_replicate = 2, .cp = 4}, false, ContextAttention::two_level},
    {{.dp_replicate = 2, .tp = 2, .pp = 3, .cp = 2}, true}};

// Sizes that every layout's ranks divide, so that the shares of ranks are equal.
TrainingCase case_of(const std::string& name, std::int64_t groups, const TrafficLayout& layout) {
  static const std::vector<std::vector<std::int64_t>> kStages = {
      {3}, {2, 1}, {1, 1, 1}, {1, 1, 1, 0}};  // Three layers, uneven.
  TrainingCase c;
  c.name = name;
  c.model = small_model(name);
  c.model.num_layers = 3;
  c.model.hidden_size = c.model.ffn_hidden_size = c.model.vocab_size = 48;
  c.model.num_query_groups = groups;
  c.model.seq_len = 8;
  c.model.max_position_embeddings = 12;
  c.model.sequence_parallel = layout.sequence_parallel;
  c.model.context_attention = layout.context_attention;
  c.model.ulysses_degree = 2;
  c.mesh = layout.mesh;
  c.stage_split.layers = kStages.at(static_cast<std::size_t>(layout.mesh.pp - 1));
  c.training.num_microbatches = 3;
  c.training.micro_batch_size = 2;
  c.training.steps = 1;
  c.bucket_bytes = c.first_bucket_bytes = 1;  // A bucket per parameter: cut like it.
  c.world.has_data = false;
  c.world.all_reduce_algorithm = Algorithm::ring;
  return c;
}

bool exchanges_heads(const TrafficLayout& layout) {
  return layout.context_attention == ContextAttention::ulysses ||
         layout.context_attention == ContextAttention::two_level;
}

SendingCase formulas_of(const TrainingCase& c) {
  return {.model = c.model,
          .mesh = c.mesh,
          .stage_layers = c.stage_split.layers,
          .zero_stage = c.zero_stage,
          .reduce_every_microbatch = c.sync.reduce_every_microbatch,
          .num_microbatches = c.training.num_microbatches,
          .micro_batch_size = c.training.micro_batch_size};
}

// Every model, layout and ZeRO stage, reducing in every microbatch or once.
template <class Check>
void for_each_case(const Check& check) {
  // Key and value heads: four, or so few that ranks have copies.
  const std::vector<std::pair<const char*, std::int64_t>> models = {
      {"gpt2", 4}, {"untied gpt2", 4}, {"llama", 4}, {"tied llama", 4}, {"llama", 2}, {"llama", 1}};
  for (const auto& [name, groups] : models) {
    for (const TrafficLayout& layout : kLayouts) {
      if (groups < 4 && exchanges_heads(layout)) continue;
      for (int stage = 0; stage <= 3; ++stage) {
        for (const bool every_microbatch : {false, true}) {
          TrainingCase c = case_of(name, groups, layout);
          c.zero_stage = stage;
          c.sync.reduce_every_microbatch = every_microbatch;
          INFO(describe(c) << ", sequence parallel " << c.model.sequence_parallel << ", " << groups
                           << " heads of keys and values");
          check(c);
        }
      }
    }
  }
}

std::int64_t sent(const TrainingResult& result, const std::vector<std::string>& groups) {
  std::int64_t sum = 0;
  for (const std::string& name : groups) {
    const auto found = result.traffic.find(name);
    if (found != result.traffic.end()) sum += found->second.payload_sent;
  }
  return sum;
}

}  // namespace

TEST_CASE("P18, P31, P41: bytes per axis of whole steps are those of the formulas") {
  for_each_case([](const TrainingCase& c) {
    const SentElements expected = elements_sent(formulas_of(c));
    const TrainingResult result = run(c);
    CHECK(sent(result, {"tp", "tp_copies"}) == kBytes * expected.tp);
    CHECK(sent(result, {"pp_forward", "pp_backward", "embedding"}) == kBytes * expected.pp);
    CHECK(sent(result, {"dp", "dp_shard", "dp_replicate"}) == kBytes * expected.dp);
    CHECK(sent(result, {"cp", "cp_ulysses", "cp_ring"}) == kBytes * expected.cp);
    CHECK(sent(result, {c.zero_stage == 0 ? "dp_shard" : "dp"}) == 0);
  });
}

// Rows that fill a table up travel with it, in the middle of a bucket or at its end, and are
// counted as padding. With 5 rows the last of four ranks has none of its own.
TEST_CASE("P18, P31, P41: a vocabulary that ranks do not divide is sent as it is, beside padding") {
  for_each_case([](TrainingCase c) {
    const SentElements divided = elements_sent(formulas_of(c));
    const SentElements summed = elements_sent_of_any_vocabulary(formulas_of(c));
    CHECK(summed.dp == divided.dp);  // Both formulas say the same of a vocabulary of 48.
    CHECK(summed.pp == divided.pp);
    for (const std::int64_t vocab_size : {5, 53}) {
      for (const std::int64_t bucket_bytes : {1, 1 << 20}) {
        c.model.vocab_size = vocab_size;
        c.bucket_bytes = c.first_bucket_bytes = bucket_bytes;
        INFO("vocabulary of " << vocab_size << ", buckets of " << bucket_bytes);
        const SentElements expected = elements_sent_of_any_vocabulary(formulas_of(c));
        const TrainingResult result = run(c);
        CHECK(sent(result, {"tp", "tp_copies"}) == kBytes * expected.tp);
        CHECK(sent(result, {"pp_forward", "pp_backward", "embedding"}) == kBytes * expected.pp);
        CHECK(sent(result, {"dp", "dp_shard", "dp_replicate"}) == kBytes * expected.dp);
        std::int64_t padding = 0;
        for (const auto& [name, counters] : result.traffic) {
          padding += counters.padding_sent;
          CHECK(counters.payload_sent == counters.payload_received);
          CHECK(counters.to_next == counters.from_previous);
        }
        CHECK(padding == kBytes * vocabulary_padding_sent(formulas_of(c)).total());
      }
    }
  });
}

// FSDP cuts a unit as one, so that one rank may own all norms of a block and another none: where
// partial sums of them are added up, only ranks of one stage together send what a formula can tell.
TEST_CASE("P18, P31, P41: every rank sends the bytes of the formulas") {
  for_each_case([](const TrainingCase& c) {
    const bool has_copies = c.mesh.tp > c.model.num_query_groups;
    const bool owns_uneven_sums = c.zero_stage == 3 && (c.model.sequence_parallel || has_copies);
    const TrainingResult result = run(c);
    std::map<int, std::int64_t> excess;  // By pipeline stage.
    for (int rank = 0; rank < c.mesh.size(); ++rank) {
      const MeshPlace at = c.mesh.place_of(rank);
      const std::int64_t bytes = result.sent_by_rank[static_cast<std::size_t>(rank)];
      const std::int64_t expected = kBytes * elements_sent(formulas_of(c), at).total();
      excess[at.pp] += bytes - expected;
      INFO("rank " << rank);
      if (!owns_uneven_sums) CHECK(bytes == expected);
    }
    for (const auto& [stage, bytes] : excess) {
      INFO("stage " << stage);
      CHECK(bytes == 0);
    }
  });
}

}  // namespace shardsim::test
