#include "strategies/model/hadamard.hpp"

#include <array>
#include <bit>

namespace shardsim {

namespace {

constexpr std::array<double, kHadamardRows> kSigns = {1,  1,  1,  -1, 1,  -1, -1, -1,
                                                      -1, -1, -1, 1,  -1, 1,  -1, -1};

using Block = Eigen::Matrix<double, kHadamardRows, kHadamardRows>;

// Element (i, j) of Sylvester's matrix: -1 to the number of bits that i and j share.
Block transform() {
  Block matrix;
  for (std::int64_t i = 0; i < kHadamardRows; ++i) {
    for (std::int64_t j = 0; j < kHadamardRows; ++j) {
      const bool is_odd = std::popcount(static_cast<std::uint64_t>(i & j)) % 2 == 1;
      matrix(i, j) = (is_odd ? -0.25 : 0.25) * kSigns[to_size(j)];
    }
  }
  return matrix;
}

}  // namespace

RowMatrix hadamard_transformed(const RowMatrix& rows) {
  const Block matrix = transform();
  RowMatrix result(rows.rows(), rows.cols());
  for (std::int64_t first = 0; first < rows.rows(); first += kHadamardRows) {
    result.middleRows(first, kHadamardRows) = matrix * rows.middleRows(first, kHadamardRows);
  }
  return result;
}

}  // namespace shardsim
