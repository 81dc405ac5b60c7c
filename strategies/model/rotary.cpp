#include "strategies/model/rotary.hpp"

#include <cmath>

namespace shardsim {

namespace {

void rotate(const Tensor& x, std::int64_t head_size, double theta, const SequencePart& part,
            double direction) {
  const std::int64_t own = x.shape()[1];          // Positions of each sample here,
  const std::int64_t seq_len = own * part.parts;  // and in all.
  const std::int64_t width = last_dim(x);
  for (std::int64_t row = 0; row < num_rows(x); ++row) {
    const auto position = static_cast<double>(part.position_of(row % own, seq_len));
    for (std::int64_t i = 0; i < width; i += 2) {
      const double exponent = -static_cast<double>(i % head_size) / static_cast<double>(head_size);
      const double angle = direction * position * std::pow(theta, exponent);
      const double cosine = std::cos(angle);
      const double sine = std::sin(angle);
      const double even = x.get(row * width + i);
      const double odd = x.get(row * width + i + 1);
      x.set(row * width + i, even * cosine - odd * sine);
      x.set(row * width + i + 1, even * sine + odd * cosine);
    }
  }
}

}  // namespace

void rotary_forward(Runtime& runtime, const Tensor& x, std::int64_t head_size, double theta,
                    const SequencePart& part) {
  require_size("rotary", "remainder of the width by the head size", last_dim(x) % head_size, 0);
  runtime.compute(memory_op("rotary", x.dtype(), 2 * x.num_bytes(), KernelFamily::rotary),
                  [&] { rotate(x, head_size, theta, part, 1.0); });
}

void rotary_backward(Runtime& runtime, const Tensor& dy, std::int64_t head_size, double theta,
                     const SequencePart& part) {
  runtime.compute(
      memory_op("rotary_backward", dy.dtype(), 2 * dy.num_bytes(), KernelFamily::rotary),
      [&] { rotate(dy, head_size, theta, part, -1.0); });
}

}  // namespace shardsim
