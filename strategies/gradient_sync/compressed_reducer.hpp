#pragma once

#include <memory>
#include <vector>

#include "strategies/gradient_sync/compressors.hpp"
#include "strategies/gradient_sync/gradient_reducer.hpp"

// Private to strategies/gradient_sync: the compressed form of a bucket's gradient, its use by the
// receivers, and the functions that rows of compressors.cpp name.
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

// The functions of each compressor, in a file named after it.
[[nodiscard]] std::unique_ptr<Compressor> make_top_k(const GradientCompression& options);
[[nodiscard]] CompressedValues keep_largest(const std::vector<double>& values,
                                            const GradientCompression& options);
[[nodiscard]] double bytes_of_largest(const GradientCompression& options, double numel,
                                      double element_bytes);

[[nodiscard]] std::unique_ptr<Compressor> make_int8_blocks(const GradientCompression& options);
[[nodiscard]] CompressedValues round_to_levels(const std::vector<double>& values,
                                               const GradientCompression& options);

/// sum = what the gathered parcels of `ranks` ranks hold, added up in rank order: one memory-bound
/// operation.
void add_up_parcels(Runtime& runtime, const Compressor& compressor,
                    const std::vector<Tensor>& gathered, std::int64_t ranks, const Tensor& sum);

/// The error of one compression of a flat buffer, to be added to its next input (Seide et al. 2014;
/// Karimireddy et al. 2019). Without error feedback it holds nothing, and does nothing.
class ErrorFeedback {
 public:
  /// For a buffer of `numel` gradients.
  ErrorFeedback(const SyncPlan& plan, Runtime& runtime, std::int64_t numel);

  /// Adds what was lost of elements [at, at + values.numel()).
  void add_to(const Tensor& values, std::int64_t at);
  /// `left`: what compression has left of these elements.
  void keep(const Tensor& left, std::int64_t at);
  [[nodiscard]] bool acts() const { return errors_.defined(); }
  /// REQUIRES: acts().
  [[nodiscard]] Tensor part(std::int64_t at, std::int64_t numel) const {
    return errors_.view(at, {numel});
  }

 private:
  Runtime& runtime_;
  Tensor errors_;  // Undefined without error feedback.
};

// How parcels travel.
/// All parcels to all ranks, which add them up in rank order.
[[nodiscard]] std::unique_ptr<GradientReducer> make_gathered_reducer(const SyncPlan& plan,
                                                                     Runtime& runtime, Mesh& mesh);
/// Parts of a bucket to their owners, whose sums travel quantized, too. REQUIRES: parcels of two
/// tensors, with an entry for each element and one for each block.
[[nodiscard]] std::unique_ptr<GradientReducer> make_quantized_reducer(const SyncPlan& plan,
                                                                      Runtime& runtime, Mesh& mesh);

}  // namespace shardsim
