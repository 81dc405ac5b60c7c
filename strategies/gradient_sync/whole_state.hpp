#pragma once

#include "strategies/gradient_sync/gradient_sync.hpp"

// A rank's state in terms of the whole model: for checks and checkpoints.
namespace shardsim {

/// Which part of the whole model a rank has.
struct ModelPart {
  const Model* model = nullptr;      ///< The rank's model: all, its parts, its stage.
  std::span<const int> whole_index;  ///< By parameter of `model`; empty: the same numbers.
  MeshPlace place;
  int expert_part = 0;  ///< MeshShape::expert_part_of().

  [[nodiscard]] PartIndex index() const { return {.tensor = place.tp, .expert = expert_part}; }
  /// The number in the whole model of a parameter of `model`.
  [[nodiscard]] int whole_number(int parameter) const {
    return whole_index.empty() ? parameter : whole_index[to_size(parameter)];
  }
};

/// Whether this rank's copy of a parameter is the one that counts in sums over ranks (and the one
/// that a checkpoint keeps).
[[nodiscard]] bool is_main_copy(const ParameterSpec& spec, const MeshPlace& place);

/// A run of elements that are consecutive here and in the whole parameter.
struct WholePiece {
  StatePiece piece;   ///< parameter and first are those of the whole model.
  bool is_main_copy;  ///< Each element has one main copy among the ranks of a data-parallel one.
  bool is_tied;       ///< Another stage has a copy, with the same bits.
  bool is_split;      ///< By tensor parallelism; else all its ranks hold the same.
  /// By expert parallelism: other ranks hold the same than of the weights around it.
  bool is_of_experts;
  int copies;  ///< Neighbouring tensor-parallel ranks that hold the same, if it is split.
};

/// Splits a piece that GradientSync::visit shows. Elements that only fill up are left out.
void for_each_whole_piece(const ModelPart& part, const StatePiece& piece,
                          const std::function<void(const WholePiece&)>& visit);

}  // namespace shardsim
