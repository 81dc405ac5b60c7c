#pragma once

#include <cstdint>
#include <vector>

#include "backends/communicator.hpp"

// Numbers whose reductions are known to the last bit: small integers, few enough that every sum and
// product on the way is exact in the element type.
namespace shardsim {

class TestValues {
 public:
  /// `op`: how they will be reduced; `reduces`: whether they will be at all.
  TestValues(DType dtype, ReduceOp op, bool reduces, int ranks);

  /// The input of rank `rank` at element `index`. It repeats after a prime number of elements, so
  /// that no chunk that went astray by a power of two looks right.
  [[nodiscard]] double at(int rank, std::int64_t index) const;
  /// Element i of `buffer` becomes at(rank, first + i).
  void fill(const Tensor& buffer, int rank, std::int64_t first) const;

  /// Means, in place of a rank, the reduction over all of them.
  static constexpr int kAll = -1;
  /// Elements of `buffer` that are not, in every bit, those of `source` from `first` on.
  [[nodiscard]] std::int64_t count_wrong(const Tensor& buffer, int source,
                                         std::int64_t first) const;

 private:
  static constexpr std::int64_t kPeriod = 4093;

  [[nodiscard]] double reduced(std::int64_t residue) const;
  // Elements first to first + `count` - 1 as they lie in memory; `count` is at most a period.
  [[nodiscard]] Tensor pattern(int source, std::int64_t first, std::int64_t count) const;

  DType dtype_;
  ReduceOp op_;
  int ranks_;
  std::int64_t span_ = 1;        // Values are 1 to this. 0: ones, on as many ranks as may be.
  std::int64_t most_ = 1;        // Ranks that may have a one.
  std::vector<double> reduced_;  // By residue.
};

}  // namespace shardsim
