#include "sim/hardware/kernels/attention.hpp"

#include <algorithm>

#include "sim/hardware/kernels/kernel_constants.hpp"
#include "sim/hardware/kernels/matrix_product.hpp"
#include "sim/hardware/kernels/to_double.hpp"

namespace shardsim {

namespace {

// Queries that a multiprocessor takes at a time.
constexpr std::int64_t kBlock = 128;

double half_at(double value, double halving) { return value / (value + halving); }

// (m, k) (k, n), once per head.
double one_product(const Device& device, double peak, std::int64_t element_bytes, std::int64_t m,
                   std::int64_t n, std::int64_t k, std::int64_t batch) {
  const KernelShape shape{KernelFamily::matrix_product, m, n, k, batch};
  const std::int64_t bytes = element_bytes * batch * (m * k + k * n + m * n);
  return matrix_product_seconds(device, peak, element_bytes, shape, bytes);
}

}  // namespace

double fused_attention_seconds(const Device& device, double peak_flops_per_s,
                               const KernelShape& shape, std::int64_t flops, std::int64_t bytes) {
  const KernelConstants& constants = *device.kernels;
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
  const double sms = constants.multiprocessors.value;
  double rate = peak_flops_per_s / sms *
                (is_forward ? constants.attention_forward_rate.value
                            : constants.attention_backward_rate.value);
  rate *= half_at(to_double(shape.k), constants.attention_head_halving.value);
  rate *= half_at(to_double(shape.n), constants.attention_keys_halving.value);
  const double longest = of_pair * to_double(std::min(kBlock, shape.m)) * to_double(shape.n);
  const double tail =
      is_forward ? constants.attention_forward_tail.value : constants.attention_backward_tail.value;
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

}  // namespace shardsim
