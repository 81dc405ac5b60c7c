#pragma once

#include <cstdint>
#include <vector>

#include "backends/tensor.hpp"

#include "strategies/model/sequence_part.hpp"

// The data of a microbatch, and what a model has to know of the batch that it is a part of.
namespace shardsim {

/// Which tokens experts are shared by. Defaults: all tokens of the batch are one group, alone.
struct RoutingGroups {
  /// Consecutive samples that one auxiliary loss is of: a microbatch of all data-parallel ranks.
  /// 0: those of the batch.
  std::int64_t balanced_samples = 0;
  /// Factor of such a group's auxiliary loss: 1 / (groups of a step), times the factor of loss
  /// scaling.
  double balance_scale = 0.0;
  /// For a batch that represents many ranks' microbatches: samples of each microbatch. Every rank
  /// has one of `context_parts` shares of their positions, and one of `token_shards` shares of that
  /// share's tokens. 0: the batch is one rank's.
  std::int64_t microbatch_samples = 0;
  int context_parts = 1;
  int token_shards = 1;
  /// So many of those ranks in a row, with token shards fastest, share experts, and of these each
  /// `expert_slices` have slices of the same ones. `expert_nodes`: the nodes that they are on, with
  /// dispatch by node, or 0.
  int expert_ranks = 1;
  int expert_slices = 1;
  int expert_nodes = 0;
};

/// Tokens of one microbatch that lie further ahead, for multi-token prediction at depth j.
struct TokensAhead {
  Tensor inputs;   ///< int32 [b, s], j positions behind those of Batch::inputs; 0 past the end.
  Tensor targets;  ///< int32 [b, s], j positions behind those of Batch::targets; -1 past the end.
};

/// One microbatch on one rank. `b` samples of `s` positions (an MLP has s = 1).
struct Batch {
  Tensor inputs;   ///< Transformers: int32 tokens [b, s]. MLP: floats [b, hidden].
  Tensor targets;  ///< Transformers: int32 [b, s], -1 = ignored by the loss. MLP: floats [b, out].
  /// Rows the loss counts, [b] fp32 of 0 and 1 for the MLP; undefined for transformers (their
  /// targets say it).
  Tensor mask;
  /// 1 / (valid targets of the whole global batch): backward starts from the mean over all tokens,
  /// so that gradients of ranks and microbatches simply add up. Times the factor of loss scaling.
  double loss_scale = 1.0;
  std::vector<TokensAhead> ahead = {};    ///< One for each depth, from 1 on.
  std::vector<double> ahead_scales = {};  ///< As loss_scale, times the loss's weight.
  /// Seed and first sample of the data. Dropout reads both on every pipeline stage, even without
  /// data, and refuses to run without them.
  std::uint64_t seed = 0;
  std::int64_t first_sample = -1;
  /// Which positions of its samples these are: s above counts only them.
  SequencePart part;
  RoutingGroups routing;
};

}  // namespace shardsim
