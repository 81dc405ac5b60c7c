#include <algorithm>
#include <cmath>

#include "strategies/gradient_sync/compressed_reducer.hpp"

namespace shardsim {

namespace {

constexpr double kLargest = 127.0;  // Symmetric: -128 is not used.

// Linear, to the nearest of 255 levels; the largest of a block is the last level. A parcel of n
// elements has n + 4 num_blocks(n) bytes. It travels in two phases (quantized_reducer.cpp).
class Int8Blocks final : public Compressor {
 public:
  explicit Int8Blocks(const GradientCompression& options) : options_(options) {}

  [[nodiscard]] std::vector<Tensor> make_parcel(Runtime& runtime, std::int64_t numel, DType,
                                                std::int64_t ranks) const override {
    std::vector<Tensor> parcel;
    parcel.push_back(runtime.allocate(MemoryCategory::comm, {ranks * numel}, DType::int8));
    parcel.push_back(
        runtime.allocate(MemoryCategory::comm, {ranks * num_blocks(options_, numel)}, DType::fp32));
    return parcel;
  }

  void compress(Runtime& runtime, const Tensor& values,
                const std::vector<Tensor>& parcel) const override {
    const Tensor& levels = parcel[0];
    const Tensor& scales = parcel[1];
    // One pass for the scales, one to round and to keep what is lost.
    const std::int64_t bytes = 3 * values.num_bytes() + levels.num_bytes() + scales.num_bytes();
    runtime.compute(memory_op("quantize_int8", values.dtype(), bytes), [&] {
      for (std::int64_t block = 0; block < scales.numel(); ++block) {
        const std::int64_t begin = block * options_.block_size;
        const std::int64_t end = std::min(begin + options_.block_size, values.numel());
        double largest = 0.0;
        for (std::int64_t i = begin; i < end; ++i) {
          const double size = std::fabs(values.get(i));
          // A NaN must not be lost: it makes the scale infinite.
          largest = std::isnan(size) ? HUGE_VAL : std::max(largest, size);
        }
        scales.set(block, largest / kLargest);
        const double scale = scales.get(block);  // As the receivers have it.
        for (std::int64_t i = begin; i < end; ++i) quantize(values, levels, i, scale);
      }
    });
  }

  void add(const Tensor& sum, const std::vector<Tensor>& gathered, std::int64_t rank,
           std::int64_t ranks) const override {
    const std::int64_t blocks = gathered[1].numel() / ranks;
    for (std::int64_t i = 0; i < sum.numel(); ++i) {
      const double scale = gathered[1].get(rank * blocks + i / options_.block_size);
      sum.set(i, sum.get(i) + gathered[0].get(rank * sum.numel() + i) * scale);
    }
  }

 private:
  static void quantize(const Tensor& values, const Tensor& levels, std::int64_t i, double scale) {
    const double value = values.get(i);
    const double level =
        scale > 0.0 ? std::clamp(std::round(value / scale), -kLargest, kLargest) : 0.0;
    levels.set(i, std::isfinite(level) ? level : 0.0);
    values.set(i, value - levels.get(i) * scale);
  }

  GradientCompression options_;
};

}  // namespace

std::unique_ptr<Compressor> make_int8_blocks(const GradientCompression& options) {
  return std::make_unique<Int8Blocks>(options);
}

// The same, written a second time for the oracle: with nothing of Int8Blocks in it, it makes none
// of its mistakes.
CompressedValues round_to_levels(const std::vector<double>& values,
                                 const GradientCompression& options) {
  const auto block_size = to_size(options.block_size);
  CompressedValues sent{std::vector<double>(values.size(), 0.0), values};
  for (std::size_t begin = 0; begin < values.size(); begin += block_size) {
    const std::size_t end = std::min(begin + block_size, values.size());
    double largest = 0.0;
    for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(values[i]));
    const double scale = static_cast<float>(largest / 127.0);
    for (std::size_t i = begin; i < end; ++i) {
      const double level = scale > 0.0 ? std::round(values[i] / scale) : 0.0;
      sent.received[i] = std::min(std::max(level, -127.0), 127.0) * scale;
      sent.left[i] = values[i] - sent.received[i];
    }
  }
  return sent;
}

}  // namespace shardsim
