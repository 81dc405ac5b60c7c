#include <string>
#include <vector>

#include "gossip.hpp"
#include "least_squares.hpp"

using shardsim::RankContext;
using shardsim::Shown;

namespace {

using Vector = std::vector<double>;

/// All workers' vectors, one after the other, as one tensor.
void show_all(RankContext& ctx, Shown what, const std::vector<Vector>& vectors, int step) {
  const auto n = static_cast<std::int64_t>(vectors.front().size());
  const auto element = [&](std::int64_t i) {
    return vectors[static_cast<std::size_t>(i / n)][static_cast<std::size_t>(i % n)];
  };
  ctx.show(what, "weights", ctx.tensor(n * static_cast<std::int64_t>(vectors.size()), element),
           {.step = step});
}

}  // namespace

shardsim::Program gossip_reference(const Gossip& gossip, int workers) {
  return [gossip, workers](RankContext& ctx) {
    const auto count = static_cast<std::size_t>(workers);
    Vector first(static_cast<std::size_t>(gossip.weights));
    for (std::size_t i = 0; i < first.size(); ++i) {
      first[i] = ctx.draw("weights", static_cast<std::int64_t>(i));
    }
    std::vector<Vector> weights(count, first);
    std::vector<Vector> gradients(count, Vector(first.size()));
    for (int step = 0; step < ctx.steps(); ++step) {
      for (int worker = 0; worker < workers; ++worker) {
        const auto w = static_cast<std::size_t>(worker);
        gradient_of(ctx, {worker, workers, step, gossip.samples}, weights[w], gradients[w]);
      }
      show_all(ctx, Shown::gradient, gradients, step);
      std::vector<Vector> moved = weights;
      for (std::size_t w = 0; w < count; ++w) {
        for (std::size_t i = 0; i < first.size(); ++i) {
          moved[w][i] -= gossip.learning_rate * gradients[w][i];
        }
      }
      for (std::size_t w = 0; w < count; ++w) {
        const Vector& left = moved[(w + count - 1) % count];
        for (std::size_t i = 0; i < first.size(); ++i) {
          weights[w][i] = (moved[w][i] + left[i]) / 2.0;
        }
      }
      show_all(ctx, Shown::parameter, weights, step);
    }
  };
}

shardsim::CheckOptions gossip_options(const Gossip& gossip, int workers) {
  shardsim::CheckOptions options;
  options.name = "gossip-" + std::to_string(workers);
  options.ranks = {workers};
  options.reference = gossip_reference(gossip, workers);
  options.bytes_sent = [weights = gossip.weights, steps = options.steps](int /*rank*/, int size) {
    return steps * bytes_per_step(weights * static_cast<std::int64_t>(sizeof(double)), size);
  };
  return options;
}
