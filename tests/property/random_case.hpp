#pragma once

#include <string>

#include <rapidcheck.h>

#include "tests/strategies/training_case.hpp"

// Random training runs. To be called within a property.
namespace shardsim::test {

/// A mesh of 1 to 16 ranks, primes and all factorizations included.
inline MeshShape draw_mesh() {
  const int ranks = *rc::gen::inRange(1, 17);
  const int shards = *rc::gen::suchThat(rc::gen::inRange(1, ranks + 1),
                                        [ranks](int size) { return ranks % size == 0; });
  return {.dp_shard = shards, .dp_replicate = ranks / shards};
}

/// Layers so small that a bias, and a whole unit, may have fewer elements than there are ranks.
inline ModelOptions draw_model(std::string& name) {
  name = *rc::gen::element<std::string>("mlp", "gpt2", "untied gpt2", "llama", "tied llama");
  ModelOptions model = small_model(name);
  model.num_layers = *rc::gen::inRange<std::int64_t>(1, 3);
  model.vocab_size = *rc::gen::inRange<std::int64_t>(2, 12);
  model.ffn_hidden_size = *rc::gen::inRange<std::int64_t>(1, 13);
  if (name == "mlp") {
    model.hidden_size = *rc::gen::inRange<std::int64_t>(1, 8);
  } else {
    model.seq_len = *rc::gen::inRange<std::int64_t>(1, 6);
  }
  return model;
}

/// Draws options that must not change any value.
inline void draw_schedule(TrainingCase& c) {
  c.bucket_bytes = *rc::gen::inRange<std::int64_t>(1, 3000);
  c.first_bucket_bytes = *rc::gen::inRange<std::int64_t>(1, 1000);
  c.sync.overlap_reduce = *rc::gen::arbitrary<bool>();
  c.sync.overlap_gather = *rc::gen::arbitrary<bool>();
  c.sync.prefetch_units = *rc::gen::inRange(0, 4);
  c.sync.reshard_after_forward = *rc::gen::arbitrary<bool>();
  c.sync.copies_units = *rc::gen::arbitrary<bool>();
  c.sync.reductions_in_flight = *rc::gen::inRange(0, 4);
  c.world.interleaving_seed = *rc::gen::inRange<std::uint64_t>(0, 1000);
}

/// 1 to 20, mostly few.
inline std::int64_t draw_steps() {
  return *rc::gen::weightedOneOf<std::int64_t>(
      {{9, rc::gen::inRange<std::int64_t>(1, 5)}, {1, rc::gen::inRange<std::int64_t>(5, 21)}});
}

/// Where weight decay is a part of the gradient it would be all there is of that of a key's bias
/// (no score depends on it), but for rounding, which steps of learning_rate * weight_decay /
/// epsilon would blow up.
inline bool blows_up_rounding(const TrainingCase& c) {
  return c.model.family == "gpt2" && (c.optimizer == "adam" || c.optimizer == "rmsprop");
}

/// Everything but the stage.
inline TrainingCase draw_case() {
  TrainingCase c;
  c.model = draw_model(c.name);
  c.mesh = draw_mesh();
  c.zero_stage = *rc::gen::inRange(0, 4);
  c.optimizer = *rc::gen::element<std::string>("sgd", "momentum", "adam", "adamw", "rmsprop");
  if (blows_up_rounding(c)) c.optimizer_options.weight_decay = 0.0;
  c.training.steps = draw_steps();
  c.training.num_microbatches = *rc::gen::inRange<std::int64_t>(1, 4);
  c.training.micro_batch_size = *rc::gen::inRange<std::int64_t>(1, 3);
  c.training.seed = *rc::gen::inRange<std::uint64_t>(1, 100000);
  c.training.ignore_fraction = *rc::gen::element(0.0, 0.3);
  c.sync.reduce_every_microbatch = *rc::gen::arbitrary<bool>();
  draw_schedule(c);
  return c;
}

/// Two data-parallel ranks, or four, whose models are cut.
inline TrainingCase draw_cut_case() {
  TrainingCase c = draw_case();
  c.name = *rc::gen::element<std::string>("gpt2", "untied gpt2", "llama", "tied llama");
  c.model = small_model(c.name);
  c.model.seq_len = 4;
  c.model.num_layers = 3;
  if (blows_up_rounding(c)) c.optimizer_options.weight_decay = 0.0;
  c.mesh = *rc::gen::element(MeshShape{.dp_shard = 2, .tp = 2}, MeshShape{.dp_shard = 2, .pp = 2},
                             MeshShape{.dp_shard = 2, .tp = 2, .pp = 2},
                             MeshShape{.dp_shard = 2, .dp_replicate = 2, .tp = 2, .pp = 3});
  c.model.sequence_parallel = c.mesh.tp > 1 && *rc::gen::arbitrary<bool>();
  c.model.recompute = *rc::gen::element(Recompute::none, Recompute::full);
  c.model.recompute_stops_early = *rc::gen::arbitrary<bool>();
  c.schedule = *rc::gen::element<std::string>("1f1b", "gpipe");
  c.training.steps = *rc::gen::inRange<std::int64_t>(1, 3);
  return c;
}

}  // namespace shardsim::test
