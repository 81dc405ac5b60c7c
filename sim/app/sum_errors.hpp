#pragma once

#include <cstdint>
#include <vector>

#include "strategies/model/weight_gradient.hpp"

#include "sim/app/whole_parameters.hpp"

namespace shardsim {

/// Among whom the additions to a gradient are divided.
struct SharedSum {
  std::int64_t microbatches = 1;
  std::int64_t ranks = 1;   ///< That have different samples, of each microbatch.
  std::int64_t shares = 1;  ///< Ranks that share the tokens of a sample.
  std::int64_t slices = 1;  ///< Contributions to tell apart within one part: of fewer tokens.
};

/// What rounding may change when ranks add up a gradient, each its microbatches and then all of
/// them: from the sums on the way, which are known here, as in a running error analysis (Wilkinson,
/// 1986; Higham, "Accuracy and stability of numerical algorithms", 3.3).
class SumErrors {
 public:
  /// The model must outlive it.
  SumErrors(const Model& model, const SharedSum& shared);

  /// An addition of the part of the batch that is under way. Its rows are cut into slices, since
  /// ranks may have so many; gradients of norms come without rows, and those of experts with rows
  /// of their own: they count as so many random parts of their sum.
  void add(Runtime& runtime, const WeightGradient& work);
  /// What that part has contributed: microbatch by microbatch, of one rank after the other.
  void end_part(const ReferenceTensors& contribution);
  /// By element, the most that all roundings may change, in unit roundoffs. To be called once.
  [[nodiscard]] ReferenceTensors finish();

 private:
  // So many roundings of a sum of this size.
  void round(std::size_t parameter, std::size_t element, double size, double times = 1.0);
  void add_one(Runtime& runtime, WeightGradient work, double factor);

  const Model& model_;
  SharedSum shared_;
  std::int64_t num_parts_ = 0;
  ReferenceTensors terms_;    // Squares of the slices.
  ReferenceTensors all_;      // Sizes of what is rounded, added up.
  ReferenceTensors squares_;  // Their squares.
  std::vector<ReferenceTensors> of_ranks_;
};

}  // namespace shardsim
