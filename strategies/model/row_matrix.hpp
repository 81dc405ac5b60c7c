#pragma once

#include <cstddef>
#include <span>

#include <Eigen/Core>

// Private to strategies/model: matrices while they are being multiplied, row by row as in tensors.
namespace shardsim {

using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

[[nodiscard]] inline std::span<const double> values_of(const RowMatrix& matrix) {
  return {matrix.data(), static_cast<std::size_t>(matrix.size())};
}

}  // namespace shardsim
