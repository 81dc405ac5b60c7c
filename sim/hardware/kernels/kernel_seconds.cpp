#include "sim/hardware/kernels/kernel_seconds.hpp"

#include <algorithm>
#include <array>

#include "sim/hardware/kernels/kernel_constants.hpp"

namespace shardsim {

namespace {

// A count as a factor of a price. Exact up to 2^53.
double to_double(std::int64_t value) { return static_cast<double>(value); }

// --- Matrix products ---------------------------------------------------------------------------

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

Product product_of(const KernelShape& shape, double element_bytes, std::int64_t bytes) {
  const double batch = to_double(shape.batch);
  const double m = to_double(shape.m);
  const double n = to_double(shape.n);
  const double operands = element_bytes * batch * (m * to_double(shape.k) + to_double(shape.k) * n);
  const double outputs = m * n * batch;
  return {shape, outputs, std::max(0.0, to_double(bytes) - operands) / outputs};
}

// Rows of operands, which are n or k long, begin at multiples of 16 bytes. Rows of batched products
// may be padded: only n counts.
bool is_aligned(const KernelShape& shape, double element_bytes) {
  const auto bits = static_cast<std::int64_t>(8.0 * element_bytes);
  const bool k_is = shape.batch > 1 || shape.k * bits % (8 * kAlignment) == 0;
  return k_is && shape.n * bits % (8 * kAlignment) == 0;
}

// --- Attention ---------------------------------------------------------------------------------

// Queries that a multiprocessor takes at a time.
constexpr std::int64_t kBlock = 128;

double half_at(double value, double halving) { return value / (value + halving); }

// (m, k) (k, n), once per head.
double one_product(const Device& device, double peak, std::int64_t element_bytes, std::int64_t m,
                   std::int64_t n, std::int64_t k, std::int64_t batch) {
  const KernelShape shape{KernelFamily::matrix_product, m, n, k, batch};
  const std::int64_t bytes = element_bytes * batch * (m * k + k * n + m * n);
  return matrix_product_seconds(device, peak, to_double(element_bytes), shape, bytes);
}

// --- Prices that were asked for before ---------------------------------------------------------

constexpr std::size_t kEntries = 1024;  // A power of two.

// All that a price depends on; names do not matter.
bool same_work(const ComputeOp& a, const ComputeOp& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.flops == b.flops && a.bytes == b.bytes &&
         a.shape == b.shape && a.launch == b.launch;
}

// The place of a price; it does not decide the price.
std::size_t place_of(const ComputeOp& op) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15U;
  std::uint64_t mixed = static_cast<std::uint64_t>(op.flops);
  mixed = (mixed ^ static_cast<std::uint64_t>(op.bytes)) * kOdd;
  mixed = (mixed ^ static_cast<std::uint64_t>(op.shape.k)) * kOdd;
  mixed = (mixed ^ static_cast<std::uint64_t>(op.shape.m)) * kOdd;
  mixed ^= static_cast<std::uint64_t>(op.shape.family);
  return static_cast<std::size_t>(mixed * kOdd >> 54U);
}

}  // namespace

double matrix_product_seconds(const Device& device, double peak_flops_per_s, double element_bytes,
                              const KernelShape& shape, std::int64_t bytes) {
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

double fused_attention_seconds(const Device& device, const AttentionKernels& kernels,
                               double peak_flops_per_s, const KernelShape& shape,
                               std::int64_t flops, std::int64_t bytes) {
  const double bound = to_double(bytes) / (device.memory_bytes_per_s * device.memory_efficiency);
  if (shape.m == 0 || shape.n == 0 || shape.k == 0 || shape.batch == 0) return bound;
  const bool is_forward = shape.family == KernelFamily::attention_forward;
  const double products = is_forward ? 2.0 : 5.0;
  const double of_pair = 2.0 * products * to_double(shape.k);
  const double of_row = of_pair * to_double(shape.batch);
  const double square = of_row * to_double(shape.m) * to_double(shape.n);
  double work = to_double(flops);
  if (work < square) {
    work = std::min(square, work + of_row * to_double(shape.m) * (kBlock / 2.0));
  }
  const AttentionPass& pass = is_forward ? kernels.forward : kernels.backward;
  const double sms = device.kernels->multiprocessors.value;
  double rate = peak_flops_per_s / sms * pass.rate.value;
  rate *= half_at(to_double(shape.k), pass.head_halving.value);
  rate *= half_at(to_double(shape.n), pass.keys_halving.value);
  const double longest = of_pair * to_double(std::min(kBlock, shape.m)) * to_double(shape.n);
  const double tail = pass.tail.value;
  return std::max(std::max(longest, work / sms + tail * longest) / rate, bound);
}

double unfused_attention_seconds(const Device& device, double peak_flops_per_s,
                                 std::int64_t element_bytes, const KernelShape& shape,
                                 const ScorePasses& passes) {
  const std::int64_t m = shape.m;
  const std::int64_t n = shape.n;
  const std::int64_t k = shape.k;
  const auto product = [&](std::int64_t rows, std::int64_t columns, std::int64_t inner) {
    return one_product(device, peak_flops_per_s, element_bytes, rows, columns, inner, shape.batch);
  };
  const bool is_forward = shape.family == KernelFamily::attention_forward;
  const double pass = to_double(element_bytes) * to_double(shape.batch) * to_double(m) *
                      to_double(n) / (device.memory_bytes_per_s * device.memory_efficiency);
  const double moving = pass * (is_forward ? passes.forward : passes.backward);
  const double scores = product(m, n, k);  // q k^T, or dy v^T
  const double rows = product(m, k, n);    // p v, or ds k
  if (is_forward) return scores + rows + moving;
  const double columns = product(n, k, m);  // p^T dy, ds^T q
  return scores + rows + 2.0 * columns + moving;
}

// --- Prices that were asked for before ---------------------------------------------------------

PriceCache::PriceCache(const Device& device, double slowdown)
    : device_(device), slowdown_(slowdown) {
  if (device.kernels != nullptr) entries_.resize(kEntries);
}

Price PriceCache::price(const ComputeOp& op) {
  const auto ask = [&]() -> Price {
    return {device_.price(op, slowdown_), device_.issue_price(op)};
  };
  if (entries_.empty()) return ask();  // A roofline is as fast.
  Entry& entry = entries_[place_of(op)];
  if (!entry.is_used || !same_work(entry.op, op)) entry = {op, ask(), true};
  return entry.price;
}

}  // namespace shardsim
