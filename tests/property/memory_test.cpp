#include <algorithm>
#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "tests/property/check_property.hpp"
#include "tests/property/random_case.hpp"

// Memory per category, in runs without data: 16-bit weights and gradients, fp32 master weights and
// Adam's moments, so 2 + 2 + 12 bytes per parameter where nothing is sharded.
namespace shardsim::test {

namespace {

constexpr std::int64_t kNarrow = 2;      // Bytes of a weight, and of a gradient.
constexpr std::int64_t kOptimizer = 12;  // A parameter's master weight and two moments.

TrainingCase mixed_precision(TrainingCase c) {
  c.world.has_data = false;
  c.model.dtype = DType::bf16;
  c.sync.weight_dtype = DType::bf16;
  c.sync.gradient_dtype = DType::bf16;
  c.sync.master_dtype = DType::fp32;
  c.optimizer = "adam";
  return c;
}

// Each chunk is padded to a multiple of the shards, and each rank has an equal part.
std::int64_t padded_elements(const TrainingCase& c, const Model& model) {
  const int shards = c.zero_stage == 0 ? 1 : c.mesh.dp_shard;
  const FlatLayout layout = layout_of(c, model);
  std::int64_t sum = 0;
  for (const FlatChunk& chunk : layout.chunks()) {
    sum += (chunk.numel + shards - 1) / shards * shards;
  }
  return sum;
}

// The weights that FSDP holds while it runs module `module` forward, besides the shards.
std::int64_t live_elements(const TrainingCase& c, const Model& model, int module) {
  const FlatLayout layout = layout_of(c, model);
  const int ahead = c.sync.overlap_gather ? c.sync.prefetch_units : 0;
  std::vector<bool> live(layout.chunks().size(), false);
  // Kept: whatever an earlier module gathered and a later one needs.
  for (int user = 0; user < model.num_modules(); ++user) {
    for (const int unit : model.units_of(user)) {
      const bool is_window = user >= module && user <= module + ahead;
      const bool is_kept = user < module && !c.sync.reshard_after_forward;
      bool is_tied = false;
      for (int other = 0; other < model.num_modules(); ++other) {
        const std::span<const int> units = model.units_of(other);
        is_tied |= other != user && std::find(units.begin(), units.end(), unit) != units.end();
      }
      if (is_window || is_kept || is_tied) live[static_cast<std::size_t>(unit)] = true;
    }
  }
  std::int64_t sum = 0;
  for (std::size_t unit = 0; unit < live.size(); ++unit) {
    if (live[unit]) sum += layout.chunks()[unit].padded;
  }
  return sum;
}

std::int64_t most_live_elements(const TrainingCase& c, const Model& model) {
  std::int64_t most = 0;
  for (int module = 0; module < model.num_modules(); ++module) {
    most = std::max(most, live_elements(c, model, module));
  }
  return most;
}

std::int64_t largest_parameter(const Model& model) {
  std::int64_t largest = 0;
  for (const ParameterSpec& spec : model.parameters()) {
    largest = std::max(largest, spec.shape.numel());
  }
  return largest;
}

// Multi-token prediction: each loss adds to the gradients of head and embedding, so their buckets
// are open from the first loss to the last, while others are filled.
std::int64_t bytes_of_all_losses(const TrainingCase& c, const Model& model) {
  if (model.num_losses() == 1) return 0;
  const FlatLayout layout = layout_of(c, model);
  std::set<int> open;
  for (std::size_t i = 0; i < model.parameters().size(); ++i) {
    const std::string& name = model.parameters()[i].name;
    if (name == "head" || name == "embedding.tokens") {
      open.insert(layout.place(static_cast<int>(i)).chunk);
    }
  }
  std::int64_t bytes = 0;
  for (const int bucket : open) bytes += kNarrow * layout.chunk(bucket).padded;
  return bytes;
}

// ZeRO-2's shard and the buckets that are filled and reduced at once; each may be padded.
std::int64_t most_gradient_bytes(const TrainingCase& c, const Model& model) {
  const std::int64_t bucket =
      std::max({c.bucket_bytes, c.first_bucket_bytes, kNarrow * largest_parameter(model)});
  const std::int64_t padding = kNarrow * (c.mesh.dp_shard - 1);
  return kNarrow * padded_elements(c, model) / c.mesh.dp_shard +
         (1 + c.sync.reductions_in_flight) * (bucket + padding) + bytes_of_all_losses(c, model);
}

// Four equal layers; a bucket, and a unit, is exactly one of them.
TrainingCase equal_layers(int stage, int shards) {
  TrainingCase c;
  c.model.num_layers = 3;
  c.model.hidden_size = c.model.ffn_hidden_size = c.model.vocab_size = 16;
  c.zero_stage = stage;
  c.mesh.dp_shard = shards;
  c = mixed_precision(c);
  c.bucket_bytes = c.first_bucket_bytes = kNarrow * (16 * 16 + 16);
  return c;
}

}  // namespace

TEST_CASE("P19: what stays in memory equals the formulas at 1, 2, 7, 8 and 64 ranks") {
  for (const char* name : kSmallModels) {
    for (const MeshShape& mesh :
         {MeshShape{1, 1}, MeshShape{2, 1}, MeshShape{7, 1}, MeshShape{8, 1}, MeshShape{64, 1},
          MeshShape{4, 2}, MeshShape{16, 4}, MeshShape{1, 7}}) {
      for (int stage = 0; stage <= 3; ++stage) {
        TrainingCase c;
        c.name = name;
        c.model = small_model(name);
        c.zero_stage = stage;
        c.mesh = mesh;
        c = mixed_precision(c);
        INFO(describe(c));
        const std::unique_ptr<Model> model = make_model(c.model);
        const std::int64_t whole = padded_elements(c, *model);
        const std::int64_t shard = whole / mesh.dp_shard;
        const auto chunks = static_cast<std::int64_t>(layout_of(c, *model).chunks().size());
        CHECK(whole - num_parameters(*model) <= chunks * (mesh.dp_shard - 1));
        const TrainingResult result = run(c);
        for (const RankRecord& rank : result.ranks) {
          CHECK(of(rank.persistent, MemoryCategory::params) ==
                kNarrow * (stage < 3 ? whole : shard));
          CHECK(of(rank.persistent, MemoryCategory::grads) ==
                kNarrow * (stage < 2 ? whole : shard));
          CHECK(of(rank.persistent, MemoryCategory::optimizer) ==
                kOptimizer * (stage < 1 ? whole : shard));
          CHECK(of(rank.persistent, MemoryCategory::activations) == 0);
          CHECK(of(rank.persistent, MemoryCategory::comm) == 0);
          // Only sharded weights and gradients need more than they keep: the units in use, and the
          // buckets on their way.
          CHECK(of(rank.peaks, MemoryCategory::optimizer) ==
                of(rank.persistent, MemoryCategory::optimizer));
          CHECK(of(rank.peaks, MemoryCategory::params) ==
                of(rank.persistent, MemoryCategory::params) +
                    (stage < 3 ? 0 : kNarrow * most_live_elements(c, *model)));
          if (stage < 2) {
            CHECK(of(rank.peaks, MemoryCategory::grads) ==
                  of(rank.persistent, MemoryCategory::grads));
          }
          if (stage == 2) {
            CHECK(of(rank.peaks, MemoryCategory::grads) <= most_gradient_bytes(c, *model));
          }
        }
      }
    }
  }
}

TEST_CASE("P19: FSDP holds its shards and exactly the units in use, prefetched or kept") {
  check_property(200, [] {
    TrainingCase c = mixed_precision(draw_case());
    c.zero_stage = 3;
    c.sync.copies_units = false;  // Else what is ahead is among what travels: see P28.
    RC_LOG() << describe(c) << "\n";
    const std::unique_ptr<Model> model = make_model(c.model);
    const std::int64_t shard = padded_elements(c, *model) / c.mesh.dp_shard;
    for (const RankRecord& rank : run(c).ranks) {
      RC_ASSERT(of(rank.peaks, MemoryCategory::params) ==
                kNarrow * (shard + most_live_elements(c, *model)));
    }
  });
}

TEST_CASE("P19: FSDP holds exactly 1 + prefetch of equal units") {
  for (const int prefetch : {0, 1, 2, 3}) {
    for (const int shards : {1, 2, 4, 7, 8, 64}) {
      TrainingCase c = equal_layers(3, shards);
      c.sync.prefetch_units = prefetch;
      INFO(describe(c));
      const std::int64_t part = (16 * 16 + 16 + shards - 1) / shards;  // Part of a unit.
      for (const RankRecord& rank : run(c).ranks) {
        CHECK(of(rank.peaks, MemoryCategory::params) ==
              kNarrow * part * (4 + shards * (1 + prefetch)));
      }
    }
  }
}

TEST_CASE("P19: peak gradients of ZeRO-2 are a shard and 1 + reductions in flight buckets") {
  check_property(300, [] {
    TrainingCase c = mixed_precision(draw_case());
    c.zero_stage = 2;
    c.sync.reduce_every_microbatch = true;
    c.sync.reductions_in_flight = *rc::gen::inRange(1, 4);
    RC_LOG() << describe(c) << "\n";
    const std::unique_ptr<Model> model = make_model(c.model);
    for (const RankRecord& rank : run(c).ranks) {
      RC_ASSERT(of(rank.peaks, MemoryCategory::grads) <= most_gradient_bytes(c, *model));
    }
  });
}

// The tied weight's bucket is open through all of backward, and a layer norm adds to two gradients
// at once: were these in two buckets, three would be open.
TEST_CASE("P19: tied weights and gradients reported together stay within ZeRO-2's bound") {
  TrainingCase c;
  c.name = "gpt2";
  c.model = small_model("gpt2");
  c.model.vocab_size = 96;
  c.model.num_layers = 4;
  c.zero_stage = 2;
  c.mesh.dp_shard = 2;
  c = mixed_precision(c);
  const std::unique_ptr<Model> model = make_model(c.model);
  const std::int64_t largest = kNarrow * largest_parameter(*model);
  for (std::int64_t cap = largest / 2; cap <= largest + largest / 2; cap += 8 * kNarrow) {
    c.bucket_bytes = c.first_bucket_bytes = cap;
    INFO(describe(c));
    const std::int64_t shard = kNarrow * padded_elements(c, *model) / c.mesh.dp_shard;
    CHECK(of(run(c).ranks[0].peaks, MemoryCategory::grads) <=
          shard + 2 * (std::max(cap, largest) + kNarrow));
  }
}

TEST_CASE("P19: the bound on peak gradients is reached, by ZeRO-2 and by FSDP") {
  for (const int stage : {2, 3}) {
    for (const int in_flight : {1, 2, 3}) {
      for (const int shards : {1, 2, 4, 7, 8, 64}) {
        TrainingCase c = equal_layers(stage, shards);
        c.sync.reductions_in_flight = in_flight;
        INFO(describe(c));
        const std::int64_t part = (16 * 16 + 16 + shards - 1) / shards;  // Part of a layer.
        const TrainingResult result = run(c);
        for (const RankRecord& rank : result.ranks) {
          CHECK(of(rank.peaks, MemoryCategory::grads) ==
                kNarrow * part * (4 + shards * (1 + in_flight)));
        }
        // One microbatch more does not need more.
        c.training.num_microbatches = 3;
        CHECK(run(c).ranks.back().peaks == result.ranks.back().peaks);
      }
    }
    TrainingCase c = equal_layers(stage, 4);
    c.sync.overlap_reduce = false;
    CHECK(of(run(c).ranks[0].peaks, MemoryCategory::grads) == c.bucket_bytes * 2);
  }
}

TEST_CASE("P20: what is sharded shrinks in proportion to the ranks") {
  for (int stage = 1; stage <= 3; ++stage) {
    const RankRecord one = run(equal_layers(stage, 1)).ranks[0];
    for (const int shards : {2, 4, 8, 16}) {
      const RankRecord many = run(equal_layers(stage, shards)).ranks[0];
      const auto shrinks = [&](MemoryCategory category) {
        return of(many.persistent, category) * shards == of(one.persistent, category);
      };
      CHECK(shrinks(MemoryCategory::optimizer));
      CHECK(shrinks(MemoryCategory::grads) == (stage >= 2));
      CHECK(shrinks(MemoryCategory::params) == (stage == 3));
    }
  }
}

}  // namespace shardsim::test
