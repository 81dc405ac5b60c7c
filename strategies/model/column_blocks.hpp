#pragma once

#include <cstdint>

#include "strategies/model/columns.hpp"
#include "strategies/model/row_matrix.hpp"

// Blocks of a tensor's rows and columns, as matrices.
namespace shardsim {

/// A block of rows and columns.
struct Block {
  std::int64_t row = 0;
  std::int64_t rows = 0;
  std::int64_t column = 0;
  std::int64_t columns = 0;
};

/// REQUIRES: data, a block within the columns.
[[nodiscard]] inline RowMatrix load_block(const Columns& from, const Block& block) {
  RowMatrix values(block.rows, block.columns);
  for (std::int64_t row = 0; row < block.rows; ++row) {
    for (std::int64_t i = 0; i < block.columns; ++i) {
      values(row, i) = from.get(block.row + row, block.column + i);
    }
  }
  return values;
}
/// REQUIRES: a block within the matrix.
inline void add_block(RowMatrix& to, const Block& block, const RowMatrix& values) {
  to.block(block.row, block.column, block.rows, block.columns) += values;
}
inline void store_block(const Columns& to, const Block& block, const RowMatrix& values) {
  for (std::int64_t row = 0; row < block.rows; ++row) {
    for (std::int64_t i = 0; i < block.columns; ++i) {
      to.set(block.row + row, block.column + i, values(row, i));
    }
  }
}

}  // namespace shardsim
