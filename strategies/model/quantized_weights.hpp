#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "strategies/model/low_precision.hpp"

// Quantized copies of weights: made at each use, or once in a step.
namespace shardsim {

/// Quantized copies of a weight [n, k], or [E, n, k] of experts: they live as long as the result.
[[nodiscard]] QuantizedTensor quantize_weight(Runtime& runtime, const LowPrecision& low,
                                              const Tensor& weight, Copies copies,
                                              const CastOptions& options = {});

/// The quantized weights of a rank that keeps its weights. They are made ahead of the first
/// microbatch of a step, and serve all. Their memory stays from the first step on.
class QuantizedWeights {
 public:
  /// The weights have changed.
  void begin_step() { ++step_; }
  /// Makes that of parameter `index`, if this step has not made it.
  void make(Runtime& runtime, const LowPrecision& low, int index, const Tensor& weight,
            const CastOptions& options = {});
  /// The copies of a weight with data: it is known by its place in memory. Throws UsageError E0682
  /// if none was made.
  [[nodiscard]] QuantizedTensor copies_of(const Tensor& weight) const;

 private:
  struct Entry {
    const std::byte* place = nullptr;  // The weight's, if it has data.
    QuantizedTensor copies;
    std::int64_t step = -1;
  };
  std::int64_t step_ = 0;
  std::map<int, Entry> entries_;
};

}  // namespace shardsim
