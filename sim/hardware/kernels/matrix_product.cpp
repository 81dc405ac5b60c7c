#include "sim/hardware/kernels/matrix_product.hpp"

#include <algorithm>
#include <array>

#include "sim/hardware/kernels/kernel_constants.hpp"
#include "sim/hardware/kernels/to_double.hpp"

namespace shardsim {

namespace {

struct Tile {
  std::int64_t m;
  std::int64_t n;
};

// Tiles that libraries choose from for 16-bit operands.
constexpr std::array<Tile, 8> kTiles = {
    {{256, 128}, {128, 256}, {128, 128}, {256, 64}, {64, 256}, {128, 64}, {64, 128}, {64, 64}}};
constexpr std::array<std::int64_t, 4> kSplits = {1, 2, 4, 8};
constexpr std::int64_t kLeastSplitK = 512;
// Parts of a sum are kept in fp32.
constexpr double kPartialBytes = 4.0;
constexpr std::int64_t kAlignment = 16;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b == 0 ? 0 : 1); }

// The common data of all ways to cut a product.
struct Product {
  const KernelShape& shape;
  double outputs;       // Elements of all results,
  double output_bytes;  // and the bytes that each moves.
};

Product product_of(const KernelShape& shape, std::int64_t element_bytes, std::int64_t bytes) {
  const double batch = to_double(shape.batch);
  const double m = to_double(shape.m);
  const double n = to_double(shape.n);
  const double operands =
      to_double(element_bytes) * batch * (m * to_double(shape.k) + to_double(shape.k) * n);
  const double outputs = m * n * batch;
  return {shape, outputs, std::max(0.0, to_double(bytes) - operands) / outputs};
}

// Rows of operands, which are n or k long, begin at multiples of 16 bytes. Rows of batched products
// may be padded: only n counts.
bool is_aligned(const KernelShape& shape, std::int64_t element_bytes) {
  const bool k_is = shape.batch > 1 || shape.k * element_bytes % kAlignment == 0;
  return k_is && shape.n * element_bytes % kAlignment == 0;
}

}  // namespace

double matrix_product_seconds(const Device& device, double peak_flops_per_s,
                              std::int64_t element_bytes, const KernelShape& shape,
                              std::int64_t bytes) {
  const KernelConstants& constants = *device.kernels;
  const double bandwidth = device.memory_bytes_per_s * device.memory_efficiency;
  const double bound = to_double(bytes) / bandwidth;
  if (shape.m == 0 || shape.n == 0 || shape.k == 0 || shape.batch == 0) return bound;
  const double sms = constants.multiprocessors.value;
  double rate = peak_flops_per_s * constants.matmul_rate.value / sms;
  if (!is_aligned(shape, element_bytes)) rate *= constants.unaligned_share.value;
  const Product product = product_of(shape, element_bytes, bytes);
  double best = -1.0;
  for (const Tile& tile : kTiles) {
    const std::int64_t tiles = ceil_div(shape.m, tile.m) * ceil_div(shape.n, tile.n) * shape.batch;
    const double area = to_double(tile.m * tile.n);
    const double slope = to_double(tile.m + tile.n) / area;
    for (const std::int64_t split : kSplits) {
      if (split > 1 && (to_double(tiles) >= sms || split * kLeastSplitK > shape.k)) break;
      const std::int64_t waves = ceil_div(tiles * split, static_cast<std::int64_t>(sms));
      const double stored = split == 1 ? product.output_bytes : kPartialBytes;
      double seconds = 2.0 * area * to_double(ceil_div(shape.k, split)) / rate *
                       (1.0 + constants.tile_halving.value * slope);
      seconds += constants.tile_overhead_s.value +
                 constants.epilogue_exposed.value * (area * stored / (bandwidth / sms));
      seconds *= to_double(waves);
      if (split > 1) {  // A second kernel adds the parts up.
        const double moved = kPartialBytes * to_double(split) + product.output_bytes;
        seconds += product.outputs * moved / bandwidth + constants.tile_overhead_s.value;
      }
      if (best < 0.0 || seconds < best) best = seconds;
    }
  }
  return std::max(best, bound);
}

}  // namespace shardsim
