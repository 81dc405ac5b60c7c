#include "strategies/optimizer/muon.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "sim/kernel/error.hpp"

#include "strategies/model/layer.hpp"

namespace shardsim {

namespace {

void require_of_muon(bool holds, const char* name, const std::string& value, const char* fix) {
  if (!holds) throw UsageError("E0606", "muon: " + std::string(name) + " is " + value, fix);
}

}  // namespace

void validate(const MuonOptions& options) {
  require_of_muon(options.momentum >= 0.0 && options.momentum < 1.0, "mu, its momentum,",
                  std::to_string(options.momentum), "give a number of at least 0 and below 1");
  require_of_muon(options.num_steps >= 1, "num_steps", std::to_string(options.num_steps),
                  "iterate once or more");
  require_of_muon(std::isfinite(options.extra_scale_factor) && options.extra_scale_factor > 0.0,
                  "extra_scale_factor", std::to_string(options.extra_scale_factor),
                  "give a finite number above 0");
}

double scale_of(const MuonOptions& options, const MatrixPart& part) {
  const auto out = static_cast<double>(part.out());
  const auto in = static_cast<double>(part.in());
  double square = std::max(out, in);
  if (options.scale == MuonScale::shape_scaling) square = std::max(1.0, out / in);
  if (options.scale == MuonScale::unit_rms_norm) square = out / in;
  return std::sqrt(square) * options.extra_scale_factor;
}

DType iteration_dtype(DType weight, DType master) {
  return size_of(weight) <= 2 ? DType::bf16 : master;
}

void muon_direction(Runtime& runtime, const MuonOptions& options, const Tensor& direction,
                    const Tensor& momentum, const Tensor& gradient, double gradient_scale) {
  const std::int64_t bytes =
      direction.num_bytes() + 2 * momentum.num_bytes() + gradient.num_bytes();
  const KernelFamily family = KernelFamily::optimizer_step;
  runtime.compute(memory_op("muon_direction", momentum.dtype(), bytes, family), [&] {
    for (std::int64_t i = 0; i < momentum.numel(); ++i) {
      const double g = gradient.get(i) * gradient_scale;
      const double m = options.momentum * momentum.get(i) + g;
      momentum.set(i, m);
      direction.set(i, options.nesterov ? g + options.momentum * m : m);
    }
  });
}

void muon_update(Runtime& runtime, const Tensor& parameter, const Tensor& update, double rate,
                 double decay) {
  const std::int64_t bytes = 2 * parameter.num_bytes() + update.num_bytes();
  const KernelFamily family = KernelFamily::optimizer_step;
  runtime.compute(memory_op("muon_update", parameter.dtype(), bytes, family), [&] {
    for (std::int64_t i = 0; i < parameter.numel(); ++i) {
      parameter.set(i, parameter.get(i) * (1.0 - rate * decay) - rate * update.get(i));
    }
  });
}

}  // namespace shardsim
