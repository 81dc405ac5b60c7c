#include <utility>

#include "strategies/model/layer.hpp"
#include "strategies/optimizer/muon_tensor_parallel.hpp"

namespace shardsim {

namespace {

// Element (row, column) of the whole matrix, in slices that lie one after the other.
std::int64_t place_of(const MatrixPart& part, std::int64_t row, std::int64_t column) {
  const std::int64_t slice = part.cut_axis == 0 ? row / part.rows : column / part.columns;
  return slice * part.numel() + (row % part.rows) * part.columns + column % part.columns;
}

// The whole matrix from its slices, in the type of the iteration.
Tensor joined_matrix(const MuonRank& rank, const Tensor& slices, const MatrixPart& part) {
  Tensor whole =
      rank.runtime.allocate(MemoryCategory::optimizer, {part.out(), part.in()}, rank.dtype);
  const std::int64_t bytes = slices.num_bytes() + whole.num_bytes();
  rank.runtime.compute(memory_op("muon_join", rank.dtype, bytes), [&] {
    for (std::int64_t i = 0; i < whole.numel(); ++i) {
      whole.set(i, slices.get(place_of(part, i / part.in(), i % part.in())));
    }
  });
  return whole;
}

// Slice `index` of the whole matrix.
Tensor slice_of(const MuonRank& rank, const Tensor& whole, const MatrixPart& part, int index) {
  Tensor slice =
      rank.runtime.allocate(MemoryCategory::optimizer, {part.rows, part.columns}, whole.dtype());
  const std::int64_t first_row = part.cut_axis == 0 ? index * part.rows : 0;
  const std::int64_t first_column = part.cut_axis == 1 ? index * part.columns : 0;
  rank.runtime.compute(memory_op("muon_slice", whole.dtype(), 2 * slice.num_bytes()), [&] {
    for (std::int64_t i = 0; i < slice.numel(); ++i) {
      const std::int64_t row = first_row + i / part.columns;
      slice.set(i, whole.get(row * part.in() + first_column + i % part.columns));
    }
  });
  return slice;
}

}  // namespace

// Source: newton_schulz_tp of Emerging-Optimizers, tp_mode "duplicated".
Orthogonalized orthogonalize_duplicated(const MuonRank& rank, const Tensor& direction,
                                        const MatrixPart& part) {
  Tensor slices =
      rank.runtime.allocate(MemoryCategory::comm, {part.parts * part.numel()}, direction.dtype());
  rank.tensor->all_gather(slices, direction.flat(), {.label = "muon slices"}).wait();
  Tensor whole = joined_matrix(rank, slices, part);
  slices = {};
  whole = newton_schulz(rank.runtime, rank.options, std::move(whole),
                        smaller_side(part.out(), part.in()));
  return {slice_of(rank, whole, part, rank.tensor->rank()), scale_of(rank.options, part)};
}

}  // namespace shardsim
