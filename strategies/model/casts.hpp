#pragma once

#include "strategies/model/low_precision.hpp"
#include "strategies/model/quantized_layout.hpp"

// The kernels behind quantize() and quantize_weight().
namespace shardsim {

inline constexpr DType kQuantizedBytes = DType::fp8_e4m3;  ///< The type of quantized tensors.

/// The copies of a tensor, each made by `make`.
template <typename Make>
[[nodiscard]] QuantizedTensor make_copies(const LowPrecision& low, Copies copies,
                                          const Make& make) {
  QuantizedTensor made;
  if (!low.has_two_copies()) {
    made.rows = make(CopyDirection::rows);
    made.columns = made.rows;
    return made;
  }
  if (copies != Copies::columns) made.rows = make(CopyDirection::rows);
  if (copies != Copies::rows) made.columns = make(CopyDirection::columns);
  return made;
}

/// A tensor to quantize, and the way.
struct Cast {
  const LowPrecision& low;
  const Tensor& x;
  bool is_weight;
  const CastOptions& options;
};

/// Fills copies of x: finds its scales, if it has to be read for them, and casts it.
void run_casts(Runtime& runtime, const Cast& cast, const QuantizedTensor& made);

}  // namespace shardsim
