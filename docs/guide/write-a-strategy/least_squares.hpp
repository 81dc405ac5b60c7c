#pragma once

#include <cstdint>
#include <span>

#include <shardsim/check.hpp>

// The model, for one device: a linear function fitted to random points. What is trained does not
// matter to the strategy; that it is the same at every number of ranks does.

/// Which samples: those of one worker out of `workers` in one step.
struct Batch {
  int worker = 0;
  int workers = 1;
  int step = 0;
  std::int64_t samples = 1;
};

/// The gradient of the mean over the batch of (x w - y)^2 / 2.
inline void gradient_of(const shardsim::RankContext& ctx, const Batch& batch,
                        std::span<const double> weights, std::span<double> gradient) {
  const auto n = static_cast<std::int64_t>(weights.size());
  for (double& element : gradient) element = 0.0;
  for (std::int64_t s = 0; s < batch.samples; ++s) {
    // Counted over everybody's samples, so that all ranks mean the same sample by it.
    const std::int64_t sample =
        (std::int64_t{batch.step} * batch.workers + batch.worker) * batch.samples + s;
    const auto x = [&](std::int64_t i) { return ctx.draw("x", sample * n + i); };
    double error = -ctx.draw("y", sample);
    for (std::int64_t i = 0; i < n; ++i) error += x(i) * weights[static_cast<std::size_t>(i)];
    for (std::int64_t i = 0; i < n; ++i) {
      gradient[static_cast<std::size_t>(i)] += x(i) * error / static_cast<double>(batch.samples);
    }
  }
}
