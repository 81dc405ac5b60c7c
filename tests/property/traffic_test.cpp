#include <algorithm>

#include <catch2/catch.hpp>

#include "tests/property/check_property.hpp"
#include "tests/property/random_case.hpp"

// Bytes sent, per rank, are those of the formulas: payload only, rings.
//
// With n elements of a chunk cut into shards c[i], member i of a ring sends n - c[i] in a
// reduce_scatter, n - c[i+1] in an all_gather, and both in an all_reduce. Summed over ranks this is
// (N-1) n, (N-1) n and 2 (N-1) n.
namespace shardsim::test {

namespace {

// Shard `member` of `count` elements that were padded to `size` equal parts.
std::int64_t padded_share(std::int64_t count, int size, int member) {
  const std::int64_t part = (count + size - 1) / size;
  return std::clamp<std::int64_t>(count - member % size * part, 0, part);
}

// Shard `member` of `count` elements that are not padded: the first ones are longer.
std::int64_t even_share(std::int64_t count, int size, int member) {
  return count / size + (member % size < count % size ? 1 : 0);
}

std::int64_t ring_all_reduce(std::int64_t count, int size, int member) {
  return 2 * count - even_share(count, size, member) - even_share(count, size, member + 1);
}

struct Coordinates {
  int shard;
  int replica;
};

// Gathers of a unit in one microbatch: again for backward unless it is kept, as units that two
// modules use always are.
std::int64_t gathers_of(const TrainingCase& c, const Model& model, int unit) {
  int users = 0;
  for (int module = 0; module < model.num_modules(); ++module) {
    for (const int used : model.units_of(module)) users += used == unit ? 1 : 0;
  }
  return c.sync.reshard_after_forward && users == 1 ? 2 : 1;
}

std::int64_t bytes_sent_per_step(const TrainingCase& c, const Model& model, Coordinates at) {
  const FlatLayout layout = layout_of(c, model);
  const int shards = c.mesh.dp_shard;
  const int replicas = c.mesh.dp_replicate;
  const std::int64_t microbatches = c.training.num_microbatches;
  const std::int64_t reductions =
      c.zero_stage >= 2 && c.sync.reduce_every_microbatch ? microbatches : 1;
  std::int64_t gradients = 0;
  std::int64_t weights = 0;
  for (int chunk = 0; chunk < static_cast<int>(layout.chunks().size()); ++chunk) {
    const std::int64_t n = layout.chunk(chunk).numel;
    if (c.zero_stage == 0) {
      gradients += ring_all_reduce(n, c.mesh.size(), at.replica * shards + at.shard);
      continue;
    }
    const std::int64_t own = padded_share(n, shards, at.shard);
    const std::int64_t next = padded_share(n, shards, at.shard + 1);
    gradients += reductions * (n - own + ring_all_reduce(own, replicas, at.replica));
    const std::int64_t gathers = c.zero_stage == 3 ? microbatches * gathers_of(c, model, chunk) : 1;
    weights += gathers * (n - next);
  }
  return gradients * size_of(c.sync.gradient_dtype) + weights * size_of(c.sync.weight_dtype);
}

TrainingCase without_data_on_rings(TrainingCase c) {
  c.world.has_data = false;
  c.world.all_reduce_algorithm = Algorithm::ring;
  return c;
}

std::int64_t total_sent(const TrainingResult& result) {
  std::int64_t sum = 0;
  for (const std::int64_t bytes : result.sent_by_rank) sum += bytes;
  return sum;
}

// Sizes that every mesh below divides, so that per-rank formulas have no remainders.
TrainingCase divisible_case(int stage, const MeshShape& mesh) {
  TrainingCase c;
  c.model.hidden_size = c.model.ffn_hidden_size = c.model.vocab_size = 24;
  c.zero_stage = stage;
  c.mesh = mesh;
  c.training.num_microbatches = 3;
  return without_data_on_rings(c);
}

}  // namespace

TEST_CASE("P18: every rank sends exactly the bytes of the formulas") {
  check_property(300, [] {
    TrainingCase c = without_data_on_rings(draw_case());
    c.sync.weight_dtype = c.model.dtype = *rc::gen::element(DType::fp32, DType::bf16, DType::fp64);
    c.sync.gradient_dtype = *rc::gen::element(DType::fp32, DType::bf16);
    c.training.max_grad_norm = *rc::gen::element(0.0, 1.0);  // Scalars: not payload.
    RC_LOG() << describe(c) << "\n";
    const TrainingResult result = run(c);
    const std::unique_ptr<Model> model = make_model(c.model);
    for (int rank = 0; rank < c.mesh.size(); ++rank) {
      const Coordinates at{rank % c.mesh.dp_shard, rank / c.mesh.dp_shard};
      RC_LOG() << "rank " << rank << "\n";
      RC_ASSERT(result.sent_by_rank[static_cast<std::size_t>(rank)] ==
                c.training.steps * bytes_sent_per_step(c, *model, at));
    }
  });
}

TEST_CASE("P18: the sums are those of ZeRO's table") {
  const std::unique_ptr<Model> model = make_model(divisible_case(0, {}).model);
  const std::int64_t psi = num_parameters(*model);
  const std::int64_t bytes = size_of(DType::fp64);
  for (const MeshShape& mesh :
       {MeshShape{8, 1}, MeshShape{4, 2}, MeshShape{1, 8}, MeshShape{3, 2}}) {
    const int s = mesh.dp_shard;
    const int r = mesh.dp_replicate;
    // All ranks together, elements; a reduction over shards, then over replicas.
    const std::int64_t reduced = r * psi * (s - 1) + 2 * psi * (r - 1);
    const std::int64_t gathered = r * psi * (s - 1);
    const std::int64_t a = 3;  // Microbatches.
    TrainingCase c = divisible_case(0, mesh);
    CHECK(total_sent(run(c)) == bytes * 2 * psi * (mesh.size() - 1));
    c.zero_stage = 1;
    CHECK(total_sent(run(c)) == bytes * (reduced + gathered));
    c.zero_stage = 2;
    CHECK(total_sent(run(c)) == bytes * (a * reduced + gathered));
    c.sync.reduce_every_microbatch = false;
    CHECK(total_sent(run(c)) == bytes * (reduced + gathered));
    c.zero_stage = 3;
    CHECK(total_sent(run(c)) == bytes * (reduced + 2 * a * gathered));
    c.sync.reduce_every_microbatch = true;
    CHECK(total_sent(run(c)) == bytes * a * (reduced + 2 * gathered));
    c.sync.reshard_after_forward = false;
    CHECK(total_sent(run(c)) == bytes * a * (reduced + gathered));
  }
}

TEST_CASE("P18: FSDP gathers a tied root unit once per microbatch, other units twice") {
  TrainingCase c;
  c.name = "gpt2";
  c.model = small_model("gpt2");
  c.zero_stage = 3;
  c.mesh.dp_shard = 5;
  c.training.num_microbatches = 2;
  c = without_data_on_rings(c);
  const std::unique_ptr<Model> model = make_model(c.model);
  const FlatLayout layout = layout_of(c, *model);
  std::int64_t elements = 0;
  for (const FlatChunk& unit : layout.chunks()) {
    elements += 2 * 4 * unit.numel * (unit.label == "root" ? 2 : 3);
  }
  CHECK(total_sent(run(c)) == elements * size_of(DType::fp64));
}

TEST_CASE("P25: without a reduction per microbatch each bucket is reduced once per step") {
  check_property(100, [] {
    TrainingCase c = without_data_on_rings(draw_case());
    c.sync.reduce_every_microbatch = false;
    const std::unique_ptr<Model> model = make_model(c.model);
    const auto chunks = static_cast<std::int64_t>(layout_of(c, *model).chunks().size());
    RC_LOG() << describe(c) << "\n";
    TrainingResult result = run(c);
    const std::int64_t once = c.training.steps * c.mesh.size() * chunks;
    const bool one_rank = c.mesh.size() == 1;
    if (c.zero_stage == 0) {
      RC_ASSERT(result.traffic["dp"].calls == (one_rank ? 0 : once));
      return;
    }
    std::int64_t gathers = chunks;
    if (c.zero_stage == 3) {
      gathers = 0;
      for (int unit = 0; unit < chunks; ++unit) {
        gathers += c.training.num_microbatches * gathers_of(c, *model, unit);
      }
    }
    RC_ASSERT(result.traffic["dp"].calls == 0);
    RC_ASSERT(result.traffic["dp_replicate"].calls == (c.mesh.dp_replicate == 1 ? 0 : once));
    RC_ASSERT(result.traffic["dp_shard"].calls ==
              (c.mesh.dp_shard == 1 ? 0 : once + c.training.steps * c.mesh.size() * gathers));
  });
}

}  // namespace shardsim::test
