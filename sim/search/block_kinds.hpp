#pragma once

#include <vector>

// The kinds of a model's blocks: blocks of one kind cost the same and have as many weights.
namespace shardsim {

struct ModelOptions;

struct BlockKinds {
  std::vector<int> of_block;  ///< The kind of each block, counted from 0.
  std::vector<int> example;   ///< The first block of each kind.
};

[[nodiscard]] BlockKinds block_kinds_of(const ModelOptions& options);

/// A model of that block alone.
[[nodiscard]] ModelOptions block_alone(ModelOptions options, int block);

}  // namespace shardsim
