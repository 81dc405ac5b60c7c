#pragma once

#include <vector>

#include "strategies/gradient_sync/gradient_reducer.hpp"

// The compressed form of a bucket's gradient, and its use by the receivers. A new compression is
// one class of this interface and one case in compressed_reducer.cpp, which names the receivers.
namespace shardsim {

/// Parcels are lists of tensors whose sizes do not depend on values, so a plan has those of a run.
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

/// sum = what the gathered parcels of `ranks` ranks hold, added up in rank order: one memory-bound
/// operation.
void add_up_parcels(Runtime& runtime, const Compressor& compressor,
                    const std::vector<Tensor>& gathered, std::int64_t ranks, const Tensor& sum);

// How parcels travel, one file each.
/// All parcels to all ranks, which add them up in rank order.
[[nodiscard]] std::unique_ptr<GradientReducer> make_gathered_reducer(const SyncPlan& plan,
                                                                     Runtime& runtime, Mesh& mesh);
/// For int8: sends parts of a bucket to their owners, whose sums travel quantized, too.
[[nodiscard]] std::unique_ptr<GradientReducer> make_quantized_reducer(const SyncPlan& plan,
                                                                      Runtime& runtime, Mesh& mesh);

}  // namespace shardsim
