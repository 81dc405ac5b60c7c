#pragma once

#include <cstdint>
#include <string>

#include "sim/kernel/error.hpp"

#include "sim/programs/step_facts.hpp"

// A transformer by the products around its attention.
namespace shardsim {

/// Sizes of one rank's part: tensor parallelism cuts heads, feed-forward and vocabulary.
struct RecognisedBlock {
  std::int64_t hidden = 0;
  std::int64_t heads = 0;   ///< This rank's.
  std::int64_t groups = 0;  ///< Heads of keys and values.
  std::int64_t head_size = 0;
  std::int64_t ffn = 0;   ///< This rank's.
  bool is_gated = false;  ///< Two products side by side, as in Llama.
  std::int64_t seq_len = 0;
  std::int64_t tokens = 0;  ///< Those of a microbatch.
};

/// E1390: no scenario says this. `what` completes "this training is none that a scenario says: ".
[[nodiscard]] UsageError no_such_training(const std::string& what);

/// The first block of the rank. Throws no_such_training.
[[nodiscard]] RecognisedBlock recognise_block(const StepFacts& facts);

/// Columns of the head's logits on a rank that has the head; 0: no product is told apart.
[[nodiscard]] std::int64_t recognise_vocabulary(const StepFacts& facts,
                                                const RecognisedBlock& block);

/// Whether a product makes the gradient of a weight: the tokens are inside.
[[nodiscard]] inline bool is_weight_gradient(const StepEvent& event, const RecognisedBlock& block) {
  return event.kind == StepEventKind::product && event.shape.k == block.tokens &&
         event.shape.m != block.tokens;
}

}  // namespace shardsim
