#include "sim/verify/muon_reference.hpp"

#include "strategies/optimizer/muon_tensor_parallel.hpp"

namespace shardsim {

namespace {

// Elements of a block of a matrix: `rows` x `columns`, from a place on.
struct Block {
  Tensor matrix;
  std::int64_t first_row = 0;
  std::int64_t first_column = 0;

  [[nodiscard]] std::int64_t at(std::int64_t i, const MatrixPart& size) const {
    const std::int64_t row = first_row + i / size.columns;
    return row * matrix.shape()[1] + first_column + i % size.columns;
  }
};

// Replaces a block by its update.
void orthogonalize_block(const MuonRank& rank, const Block& block, const MatrixPart& size) {
  const Tensor copy = rank.runtime.allocate(MemoryCategory::optimizer, {size.rows, size.columns},
                                            block.matrix.dtype());
  for (std::int64_t i = 0; i < size.numel(); ++i) copy.set(i, block.matrix.get(block.at(i, size)));
  const Orthogonalized result = orthogonalize_whole(rank, copy, size);
  for (std::int64_t i = 0; i < size.numel(); ++i) {
    block.matrix.set(block.at(i, size), result.scale * result.x.get(i));
  }
}

}  // namespace

bool MuonReference::takes(int parameter) const {
  return plan_.muon && spec_of(*plan_.model, parameter).has_matrices();
}

void MuonReference::step(int parameter, const Tensor& master, const Tensor& gradient,
                         const Tensor& momentum, double gradient_scale) const {
  const ParameterSpec& spec = spec_of(*plan_.model, parameter);
  const Tensor update =
      runtime_.allocate(MemoryCategory::optimizer, {master.numel()}, master.dtype());
  muon_direction(runtime_, *plan_.muon, update, momentum, gradient, gradient_scale);
  const std::int64_t columns = spec.shape[spec.shape.rank() - 1];
  std::int64_t first = 0;
  for (const std::int64_t rows : spec.matrix_rows) {
    orthogonalize_in_blocks(parameter, update.view(first * columns, {rows, columns}));
    first += rows;
  }
  const OptimizerOptions& shared = plan_.optimizer->options();
  muon_update(runtime_, master, update, shared.learning_rate, shared.weight_decay);
}

void MuonReference::orthogonalize_in_blocks(int parameter, const Tensor& matrix) const {
  const MuonRank rank{runtime_, *plan_.muon,
                      iteration_dtype(plan_.weight_dtype, plan_.master_dtype)};
  MatrixPart size{.rows = matrix.shape()[0], .columns = matrix.shape()[1]};
  const bool in_blocks = plan_.muon->tensor_parallel == MuonTensorParallel::blockwise;
  if (!in_blocks || plan_.cut_model == nullptr) {
    return orthogonalize_block(rank, {.matrix = matrix}, size);
  }
  const ParameterSpec& cut = spec_of(*plan_.cut_model, parameter);
  if (!cut.is_split_over(SplitRanks::tensor)) {
    return orthogonalize_block(rank, {.matrix = matrix}, size);
  }
  const bool by_rows = cut.split.axis == 0;
  (by_rows ? size.rows : size.columns) /= cut.split.parts;
  for (int part = 0; part < cut.split.parts; ++part) {
    orthogonalize_block(rank,
                        {.matrix = matrix,
                         .first_row = by_rows ? part * size.rows : 0,
                         .first_column = by_rows ? 0 : part * size.columns},
                        size);
  }
}

}  // namespace shardsim
