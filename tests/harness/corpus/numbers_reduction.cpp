#include <cmath>

#include "tests/harness/corpus/corpus_row.hpp"
#include "tests/harness/corpus/program.hpp"

// Sums over ranks that are not made, or are weighted wrongly.
namespace shardsim::corpus {

namespace {

constexpr std::int64_t kInputs = 4;
constexpr std::int64_t kColumns = 24;

// Ranks hold tokens in the proportions 1 : 2 : 5 : 1 : 2 ...
Part uneven_part(const RankContext& context) {
  static constexpr std::int64_t kShares[] = {1, 2, 5};
  const auto shares_of = [&](int ranks) {
    std::int64_t shares = 0;
    for (int rank = 0; rank < ranks; ++rank) shares += kShares[rank % std::size(kShares)];
    return shares;
  };
  const std::int64_t whole = shares_of(context.size());
  return {kSamples * shares_of(context.rank()) / whole,
          kSamples * shares_of(context.rank() + 1) / whole};
}

void mean_of_means(RankContext& context, const Plant& plant) {
  const Part part = uneven_part(context);
  context.share_of_batch(part.count());
  for (int step = 0; step < context.steps(); ++step) {
    const double mine = static_cast<double>(part.count() * context.size());
    const double scale = 1.0 / (plant.in(context) ? mine : static_cast<double>(kSamples));
    const Tensor gradient = gradient_of(context, step, part, scale);
    context.world().all_reduce(gradient, ReduceOp::sum).wait();
    plant.next_line();
    context.show(Shown::gradient, "weights", gradient, {.step = step});
  }
}

// Every rank has part of the sequence and all of the norm's weights.
void norm_not_reduced(RankContext& context, const Plant& plant) {
  const Tensor weights = context.tensor(kWeights);
  for (int step = 0; step < context.steps(); ++step) {
    const Tensor gradient = gradient_of(context, step, my_part(kSamples, context), 1.0);
    if (!plant.in(context)) context.world().all_reduce(gradient, ReduceOp::sum).wait();
    plant.next_line();
    context.show(Shown::gradient, "norm.weight", gradient, {.step = step});
    descend(weights, gradient);
    context.show(Shown::parameter, "norm.weight", weights, {.step = step});
  }
}

// y = W x; every rank has some of y's elements and of W's rows. The gradient of x is the sum of
// what comes through each.
void backward_not_reduced(RankContext& context, const Plant& plant) {
  const Part columns = my_part(kColumns, context);
  const auto weight = [&](std::int64_t column, std::int64_t input) {
    return whole_number(context, "weight", column * kInputs + input);
  };
  for (int step = 0; step < context.steps(); ++step) {
    const auto dy = [&](std::int64_t column) {
      return whole_number(context, "dy", step * kColumns + column);
    };
    const Tensor dx = context.tensor(kInputs, [&](std::int64_t input) {
      double sum = 0.0;
      for (std::int64_t c = columns.first; c < columns.last; ++c) sum += weight(c, input) * dy(c);
      return sum;
    });
    const Tensor dw = context.tensor(columns.count() * kInputs, [&](std::int64_t i) {
      return dy(columns.first + i / kInputs) * whole_number(context, "x", i % kInputs);
    });
    if (!plant.in(context)) context.world().all_reduce(dx, ReduceOp::sum).wait();
    plant.next_line();
    context.show(Shown::activation_gradient, "layer input", dx, {.step = step});
    const ShowOptions shard = {
        .first = columns.first * kInputs, .whole = kColumns * kInputs, .step = step};
    context.show(Shown::gradient, "layer.weight", dw, shard);
  }
}

double sum_of_squares(const Tensor& tensor) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < tensor.numel(); ++i) sum += tensor.get(i) * tensor.get(i);
  return sum;
}

// This rank's shard of the gradient of kColumns sharded weights.
Tensor sharded_gradient(RankContext& context, int step, const Part& part) {
  return context.tensor(part.count(), [&](std::int64_t i) {
    return whole_number(context, "gradient", step * kColumns + part.first + i);
  });
}

double sum_over_ranks(RankContext& context, double value) {
  const Tensor sum = context.tensor(1, [&](std::int64_t) { return value; });
  const CallOptions scalar = {.label = "norm", .traffic = TrafficClass::scalar};
  context.world().all_reduce(sum, ReduceOp::sum, scalar).wait();
  return sum.get(0);
}

void local_norm(RankContext& context, const Plant& plant) {
  const Part part = my_part(kColumns, context);
  for (int step = 0; step < context.steps(); ++step) {
    const Tensor gradient = sharded_gradient(context, step, part);
    const ShowOptions shard = {.first = part.first, .whole = kColumns, .step = step};
    context.show(Shown::gradient, "weights", gradient, shard);
    double squares = sum_of_squares(gradient);
    if (!plant.in(context)) squares = sum_over_ranks(context, squares);
    plant.next_line();
    context.show(Shown::norm, "gradient norm", std::sqrt(squares), {.step = step});
  }
}

// Every rank adds the gradient of weights that all have.
void replicas_counted(RankContext& context, const Plant& plant) {
  const Part part = my_part(kColumns, context);
  for (int step = 0; step < context.steps(); ++step) {
    const Tensor sharded = sharded_gradient(context, step, part);
    const Tensor replicated = gradient_of(context, step, {0, kSamples}, 1.0);
    context.show(Shown::gradient, "replicated", replicated, {.step = step});
    double squares = sum_of_squares(sharded);
    if (plant.in(context) || context.rank() == 0) squares += sum_of_squares(replicated);
    squares = sum_over_ranks(context, squares);
    plant.next_line();
    context.show(Shown::norm, "gradient norm", std::sqrt(squares), {.step = step});
  }
}

// The first and the last stage have the embedding, and each the gradient of its own use of it.
void tied_embeddings(RankContext& context, const Plant& plant) {
  const bool first = context.rank() == 0;
  const bool last_stage = is_last(context);
  const auto ends = context.world().split(first || last_stage ? 0 : 1, context.rank(), "embedding");
  if (!first && !last_stage) return;
  for (int step = 0; step < context.steps(); ++step) {
    const Tensor gradient = context.tensor(kWeights, [&](std::int64_t i) {
      const std::int64_t index = step * kWeights + i;
      double sum = 0.0;
      if (first) sum += whole_number(context, "input use", index);
      if (last_stage) sum += whole_number(context, "output use", index);
      return sum;
    });
    if (!plant.in(context)) ends->all_reduce(gradient, ReduceOp::sum).wait();
    plant.next_line();
    context.show(Shown::gradient, "embedding", gradient, {.step = step});
  }
}

}  // namespace

std::vector<Row> reduction_rows() {
  const auto ends = [](int size) { return std::vector<int>{0, size - 1}; };
  std::vector<Row> rows = {
      {"S03", "mean of local means", mean_of_means, "GRAD_DIFF", all(), Who::every, "mean"},
      {"S05", "replicated parameter not reduced", norm_not_reduced, "REPLICA_DIVERGED", all(),
       Who::every, "the ranks hold parts of a sum"},
      {"S06", "backward reduce missing", backward_not_reduced, "GRAD_DIFF", all(), Who::every,
       "layer input"},
      {"S10", "clip by the local norm", local_norm, "NORM_DIFF", all(), Who::every,
       "the ranks hold parts of a sum of squares"},
      {"S10", "replicas counted in the norm", replicas_counted, "NORM_DIFF", all(), Who::every,
       "counts the gradient of replicated 8 times"},
      {"S12", "tied embeddings not reduced", tied_embeddings, "REPLICA_DIVERGED", ends, Who::every,
       "embedding"},
  };
  rows.front().options.ranks = {3};
  return in_file(std::move(rows));
}

}  // namespace shardsim::corpus
