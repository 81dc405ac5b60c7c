#include "gossip.hpp"

#include <array>
#include <vector>

#include "least_squares.hpp"

using shardsim::Communicator;
using shardsim::P2pOp;
using shardsim::RankContext;
using shardsim::Runtime;
using shardsim::Shown;
using shardsim::Tensor;

namespace {

/// Posts both halves of the exchange and waits for them.
void exchange(Communicator& ring, const Tensor& mine, const Tensor& theirs, Bug bug) {
  const int right = (ring.rank() + 1) % ring.size();
  const int left = (ring.rank() + ring.size() - 1) % ring.size();
  if (bug == Bug::unbatched) {
    ring.send(mine, right, {.label = "weights"}).wait();
    ring.recv(theirs, left, {.label = "weights"}).wait();
    return;
  }
  const std::array<P2pOp, 2> both = {P2pOp{P2pOp::Kind::send, mine, right},
                                     P2pOp{P2pOp::Kind::recv, theirs, left}};
  ring.batch(both, {.label = "weights"}).wait();
}

/// to += factor * from, as one kernel: priced in a plan, computed where there are data.
void add(Runtime& runtime, const char* name, const Tensor& to, double keep, double factor,
         const Tensor& from) {
  runtime.compute(
      {name, shardsim::ComputeKind::memory_bound, to.dtype(), 3 * to.numel(), 3 * to.num_bytes()},
      [&] {
        for (std::int64_t i = 0; i < to.numel(); ++i) {
          to.set(i, keep * to.get(i) + factor * from.get(i));
        }
      });
}

void train(RankContext& ctx, const Gossip& gossip) {
  const std::int64_t n = gossip.weights;
  const Tensor weights = ctx.tensor(n, [&](std::int64_t i) { return ctx.draw("weights", i); });
  const Tensor gradient = ctx.tensor(n);
  std::vector<double> w(static_cast<std::size_t>(n));
  std::vector<double> g(w.size());
  for (int step = 0; step < ctx.steps(); ++step) {
    // Every rank has weights of its own: of all ranks' together, these are elements rank * n on.
    const shardsim::ShowOptions mine = {
        .first = ctx.rank() * n, .whole = ctx.size() * n, .step = step};
    load(weights, w);
    gradient_of(ctx, {ctx.rank(), ctx.size(), step, gossip.samples}, w, g);
    store(gradient, g);
    ctx.show(Shown::gradient, "weights", gradient, mine);
    add(ctx.runtime(), "descend", weights, 1.0, -gossip.learning_rate, gradient);
    average_with_neighbour(ctx.runtime(), ctx.world(), weights, gossip.bug);
    ctx.show(Shown::parameter, "weights", weights, mine);
  }
}

}  // namespace

void average_with_neighbour(Runtime& runtime, Communicator& ring, const Tensor& weights, Bug bug) {
  if (ring.size() == 1) return;
  const Tensor theirs =
      runtime.allocate(shardsim::MemoryCategory::comm, weights.shape(), weights.dtype());
  exchange(ring, weights, theirs, bug);
  const double share = bug == Bug::third ? 1.0 / 3.0 : 1.0 / 2.0;
  add(runtime, "average", weights, 1.0 - share, share, theirs);
}

shardsim::Program gossip_program(const Gossip& gossip) {
  return [gossip](RankContext& ctx) { train(ctx, gossip); };
}
