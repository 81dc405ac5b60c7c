#include "strategies/model/query_temperature.hpp"

#include <cmath>

namespace shardsim {

namespace {

// Each row by the factor of its position in the whole sample, of which this rank may have a share.
void apply_factors(Runtime& runtime, const char* name, const Tensor& x,
                   const QueryTemperature& temperature, const SequencePart& part) {
  runtime.compute(memory_op(name, x.dtype(), 2 * x.num_bytes()), [&] {
    const std::int64_t own = x.shape()[1];  // Positions of each sample here.
    const std::int64_t width = last_dim(x);
    for (std::int64_t row = 0; row < num_rows(x); ++row) {
      const double factor = temperature.factor(part.position_of(row % own, own * part.parts));
      for (std::int64_t i = row * width; i < (row + 1) * width; ++i) x.set(i, x.get(i) * factor);
    }
  });
}

}  // namespace

double QueryTemperature::factor(std::int64_t position) const {
  const std::int64_t run = (position + 1) / floor;
  return 1.0 + scale * std::log1p(static_cast<double>(run));
}

void query_temperature_forward(Runtime& runtime, const Tensor& q,
                               const QueryTemperature& temperature, const SequencePart& part) {
  apply_factors(runtime, "query_temperature", q, temperature, part);
}

void query_temperature_backward(Runtime& runtime, const Tensor& dq,
                                const QueryTemperature& temperature, const SequencePart& part) {
  apply_factors(runtime, "query_temperature_backward", dq, temperature, part);
}

}  // namespace shardsim
