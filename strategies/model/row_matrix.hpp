#pragma once

#include <cstddef>
#include <span>

#include <Eigen/Core>

#include "strategies/model/layer.hpp"

// Matrices while they are being multiplied, row by row as in tensors.
namespace shardsim {

using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

[[nodiscard]] inline std::span<const double> values_of(const RowMatrix& matrix) {
  return {matrix.data(), to_size(matrix.size())};
}

/// Rows [first, first + count) of a tensor that is a matrix of `columns`. REQUIRES: data.
[[nodiscard]] inline RowMatrix rows_of(const Tensor& tensor, std::int64_t first, std::int64_t count,
                                       std::int64_t columns) {
  RowMatrix matrix(count, columns);
  load(tensor.view(first * columns, {count * columns}), {matrix.data(), to_size(matrix.size())});
  return matrix;
}
/// A tensor as the matrix of its rows.
[[nodiscard]] inline RowMatrix matrix_of(const Tensor& tensor) {
  return rows_of(tensor, 0, num_rows(tensor), last_dim(tensor));
}

}  // namespace shardsim
