#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/strategies/training_case.hpp"

// Bytes per axis of whole training steps under tensor, sequence and pipeline parallelism, summed
// over ranks. On a ring of N ranks an all_reduce of n elements sends 2 (N-1) n in all, a gather or
// a reduce_scatter (N-1) n. The formulas are derived beside
// each.
namespace shardsim::test {

namespace {

constexpr std::int64_t kBytes = 8;  // fp64

struct Layout {
  MeshShape mesh;
  bool sequence_parallel = false;
};

const std::vector<Layout> kLayouts = {{{.dp_shard = 1, .tp = 2, .pp = 1}, false},
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
                                      {{.dp_shard = 2, .dp_replicate = 2, .tp = 2, .pp = 2}, true}};

TrainingCase case_of(const Layout& layout) {
  TrainingCase c;
  c.model = small_model("llama");
  c.model.num_layers = 3;
  c.model.num_query_groups = 4;
  c.model.seq_len = 8;
  c.model.vocab_size = 12;
  c.model.sequence_parallel = layout.sequence_parallel;
  c.stage_split.account_for_loss = true;  // Three layers on up to four stages.
  c.mesh = layout.mesh;
  c.training.num_microbatches = 3;
  c.training.micro_batch_size = 2;
  c.training.steps = 1;
  c.world.has_data = false;
  c.world.all_reduce_algorithm = Algorithm::ring;
  return c;
}

std::int64_t sent(const TrainingResult& result, const std::vector<std::string>& groups) {
  std::int64_t sum = 0;
  for (const std::string& name : groups) {
    const auto found = result.traffic.find(name);
    if (found != result.traffic.end()) sum += found->second.payload_sent;
  }
  return sum;
}

// Elements of a microbatch's activation, and of one number per token.
std::int64_t tokens(const TrainingCase& c) { return c.training.micro_batch_size * c.model.seq_len; }
std::int64_t activation(const TrainingCase& c) { return tokens(c) * c.model.hidden_size; }

std::int64_t tensor_parallel_bytes(const TrainingCase& c) {
  const std::int64_t others = c.mesh.tp - 1;
  const std::int64_t layers = c.model.num_layers;
  const std::int64_t cross_entropy = 3 * 2 * tokens(c);  // Three all_reduces.
  const std::int64_t microbatches = c.training.num_microbatches * c.mesh.data_size();
  if (!c.model.sequence_parallel) {
    // Each layer: 4 all_reduces; the embedding's output and the head's input gradient: one each.
    const std::int64_t regions = 2 * (4 * layers + 2) * activation(c);
    return kBytes * microbatches * others * (regions + cross_entropy);
  }
  // Each layer: 4 gathers, 4 reduce_scatters, and 2 gathers again for gradients of weights; the
  // embedding: reduce_scatter and gather; the head: gather, reduce_scatter, and gather again.
  const std::int64_t regions = (10 * layers + 2 + 3) * activation(c);
  // At the end of the step every data-parallel rank sums its norms' gradients.
  const std::int64_t norms = 2 * (2 * layers + 1) * c.model.hidden_size * c.mesh.data_size();
  return kBytes * others * (microbatches * (regions + cross_entropy) + norms);
}

// What one data-parallel column of ranks holds, all of them together: split parameters once, the
// others on every tensor-parallel rank.
std::int64_t held_elements(const TrainingCase& c) {
  const std::int64_t h = c.model.hidden_size;
  const std::int64_t norms = (2 * c.model.num_layers + 1) * h;
  const std::int64_t block = 4 * h * h + 3 * h * c.model.ffn_hidden_size;
  return c.model.num_layers * block + 2 * c.model.vocab_size * h + norms * c.mesh.tp;
}

}  // namespace

TEST_CASE("P31: tensor-parallel bytes of whole steps are those of the formulas") {
  for (const Layout& layout : kLayouts) {
    const TrainingCase c = case_of(layout);
    INFO(describe(c));
    CHECK(sent(run(c), {"tp"}) == tensor_parallel_bytes(c));
  }
}

TEST_CASE("P41: pipeline bytes are 2 M b s h per boundary, 1/t of it where tokens are sharded") {
  for (const Layout& layout : kLayouts) {
    const TrainingCase c = case_of(layout);
    INFO(describe(c));
    // Without token shards every tensor-parallel rank sends the whole activation.
    const std::int64_t copies = c.model.sequence_parallel ? 1 : c.mesh.tp;
    const std::int64_t messages = 2 * c.training.num_microbatches * (c.mesh.pp - 1);
    CHECK(sent(run(c), {"pp_forward", "pp_backward"}) ==
          kBytes * messages * activation(c) * copies * c.mesh.data_size());
  }
}

TEST_CASE("P18: data-parallel bytes under tensor and pipeline parallelism are those of each part") {
  for (const Layout& layout : kLayouts) {
    for (int stage = 0; stage <= 3; ++stage) {
      TrainingCase c = case_of(layout);
      c.zero_stage = stage;
      c.sync.reduce_every_microbatch = false;
      INFO(describe(c));
      // Shards: a reduce_scatter, and a gather or, in stage 3, two per microbatch, among the
      // ranks of a replica; then an all_reduce of shards between replicas. DDP: one of all ranks.
      const std::int64_t microbatches = c.training.num_microbatches;
      const std::int64_t replicas = c.mesh.dp_replicate;
      const std::int64_t shard_calls = stage == 3 ? 1 + 2 * microbatches : 2;
      const std::int64_t of_shards = shard_calls * replicas * (c.mesh.dp_shard - 1);
      const std::int64_t of_replicas = 2 * (replicas - 1);
      const TrainingResult result = run(c);
      if (stage == 0) {
        CHECK(sent(result, {"dp"}) == kBytes * 2 * (c.mesh.data_size() - 1) * held_elements(c));
        CHECK(sent(result, {"dp_shard", "dp_replicate"}) == 0);
        continue;
      }
      CHECK(sent(result, {"dp"}) == 0);
      CHECK(sent(result, {"dp_shard"}) == kBytes * of_shards * held_elements(c));
      CHECK(sent(result, {"dp_replicate"}) == kBytes * of_replicas * held_elements(c));
    }
  }
}

}  // namespace shardsim::test
