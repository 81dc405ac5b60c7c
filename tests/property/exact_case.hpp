#pragma once

#include <cmath>
#include <cstdint>

#include "tests/property/random_case.hpp"

// Trainings whose sums are exact in any order: what is neutral is it in every bit.
namespace shardsim::test {

inline constexpr std::int64_t kDouble = 8;  ///< Bytes of fp64.

/// Weights are whole numbers and all divisors powers of two: see "P15: on whole numbers".
inline TrainingCase draw_exact_case() {
  TrainingCase c;
  c.name = "integer mlp";
  c.model = small_model("integer mlp");
  c.model.num_layers = 1;
  c.model.hidden_size = *rc::gen::inRange<std::int64_t>(1, 6);
  c.mesh.dp_shard = *rc::gen::element(1, 2);
  c.mesh.dp_replicate = *rc::gen::element(2, 4);
  c.optimizer_options = {.learning_rate = 0.0625, .weight_decay = 0.0};
  c.training.steps = 2;
  c.training.num_microbatches = *rc::gen::element<std::int64_t>(1, 2);
  c.training.seed = *rc::gen::inRange<std::uint64_t>(1, 100000);
  c.bucket_bytes = *rc::gen::inRange<std::int64_t>(1, 3000);
  c.first_bucket_bytes = *rc::gen::inRange<std::int64_t>(1, 1000);
  return c;
}

/// Compares the weights of every rank. Gradients of a replica are means over fewer samples, and may
/// differ.
inline void expect_equal_weights(const TrainingCase& a, const TrainingCase& b) {
  RC_LOG() << describe(a) << "\n";
  const TrainingResult first = run(a);
  const TrainingResult second = run(b);
  for (std::size_t rank = 0; rank < first.ranks.size(); ++rank) {
    for (std::size_t step = 0; step < first.ranks[rank].steps.size(); ++step) {
      StepRecord of_first = first.ranks[rank].steps[step];
      StepRecord of_second = second.ranks[rank].steps[step];
      RC_ASSERT(of_first.loss == of_second.loss);
      const Values& weights = of_first.values["parameter"];
      const Values& others = of_second.values["parameter"];
      for (std::size_t i = 0; i < weights.size(); ++i) {
        for (std::size_t j = 0; j < weights[i].size(); ++j) {
          const bool held = !std::isnan(weights[i][j]);
          RC_ASSERT(held == !std::isnan(others[i][j]));
          if (held) RC_ASSERT(weights[i][j] == others[i][j]);
        }
      }
    }
  }
}

}  // namespace shardsim::test
