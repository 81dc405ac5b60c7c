#pragma once

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "tests/strategies/layer_fixture.hpp"
#include "tests/strategies/model_fixture.hpp"

// Models to be cut, and what their parts have of the whole.
namespace shardsim::test {

/// The elements of `whole` that part `part` of a parameter has; 0 for padding.
inline Tensor part_of(const ParameterSpec& spec, int part, const Tensor& whole) {
  const Tensor values = zeros(spec.shape, whole.dtype());
  for_each_whole_run(spec, part, 0, values.numel(), [&](const WholeRun& run) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      values.set(run.at + i, whole.get(run.whole_first + i));
    }
  });
  return values;
}

/// Rank `rank`'s part of elements that lie one after the other.
inline Tensor shard_of(const Tensor& whole, int rank, int size) {
  const std::int64_t count = whole.numel() / size;
  return copy_of(whole.view(rank * count, {count}));
}

/// Initial weights, with biases and norms away from their special values 0 and 1.
inline void stir(const Tensor& weight, int index) {
  for (std::int64_t i = 0; i < weight.numel(); ++i) {
    weight.set(i, weight.get(i) * 5.0 + 0.1 * std::sin(static_cast<double>(7 * index + i)));
  }
}

struct ModelCase {
  ModelOptions options;  ///< Whole.
  std::int64_t samples = 3;
  int size = 2;  ///< t
  bool sequence_parallel = false;
  bool overlaps = false;  ///< With that: products and token shards on their way.

  [[nodiscard]] ModelOptions of_part() const {
    ModelOptions part = options;
    part.tensor_parallel = size;
    part.sequence_parallel = sequence_parallel;
    return part;
  }
};

/// Largest difference in units of the largest element of `expected` (at least 1).
inline double relative_difference(const Tensor& actual, const Tensor& expected) {
  const double scale = max_difference(expected, zeros(expected.shape()));
  return max_difference(actual, expected) / std::max(1.0, scale);
}

/// Models small enough to compare element by element, whose sizes 4 divides, but not the
/// vocabulary.
inline ModelOptions divisible_model(std::string_view name, std::int64_t vocab_size = 11) {
  ModelOptions options{.family = "llama",
                       .num_layers = 2,
                       .hidden_size = 16,
                       .ffn_hidden_size = 12,
                       .num_attention_heads = 8,
                       .num_query_groups = 4,
                       .vocab_size = vocab_size,
                       .seq_len = 4,
                       .max_position_embeddings = 6,
                       .tied_embeddings = false,
                       .dtype = DType::fp64};
  if (name == "gpt2" || name == "untied gpt2") {
    options.family = "gpt2";
    options.num_query_groups = name == "gpt2" ? 8 : 4;
    options.tied_embeddings = name == "gpt2";
  } else if (name == "tied llama") {
    options.tied_embeddings = true;
  } else if (name == "latent llama") {
    return with_latents(options, 7);
  } else if (name == "llama with a latent of keys") {
    return with_latents(options, 0);
  }
  return with_heads_of_layers(with_block_shape(options, name), name);
}

inline const std::vector<const char*> kDivisibleModels = with_block_shapes(
    {"gpt2", "untied gpt2", "llama", "tied llama", "latent llama", "llama with a latent of keys",
     "llama of wide values", "llama of unlike heads", "llama of keys as values",
     "llama of normed values", "llama with gates of heads"});

}  // namespace shardsim::test
