#pragma once

#include <vector>

#include "strategies/gradient_sync/gradient_reducer.hpp"

// What ranks send of a bucket's gradient, and what all make of it. A new compression is one class
// of this interface and one case in compressed_reducer.cpp.
namespace shardsim {

/// A bucket on its way. Sizes do not depend on values, so a plan has those of a run.
struct CompressedBucket {
  std::vector<Tensor> sent;      ///< This rank's.
  std::vector<Tensor> gathered;  ///< Those of all ranks, in rank order.
};

class Compressor {
 public:
  virtual ~Compressor() = default;
  /// Tensors that this rank sends of a bucket of `numel` elements, empty, in the ledger.
  [[nodiscard]] virtual std::vector<Tensor> make_parcel(Runtime& runtime, std::int64_t numel,
                                                        DType dtype, std::int64_t ranks) const = 0;
  /// Fills `parcel` from `values`, from which it takes what the receivers will have of it: what is
  /// left is the error. Charges its memory-bound operations.
  virtual void compress(Runtime& runtime, const Tensor& values,
                        const std::vector<Tensor>& parcel) const = 0;
  /// Adds the `rank`-th of the gathered parcels of `ranks` ranks to `sum`. Arithmetic alone.
  virtual void add(const Tensor& sum, const std::vector<Tensor>& gathered, std::int64_t rank,
                   std::int64_t ranks) const = 0;
};

[[nodiscard]] std::unique_ptr<Compressor> make_top_k(const GradientCompression& options);
[[nodiscard]] std::unique_ptr<Compressor> make_int8_blocks(const GradientCompression& options);

}  // namespace shardsim
