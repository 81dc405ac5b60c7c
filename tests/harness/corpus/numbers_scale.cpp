#include "tests/harness/corpus/corpus_row.hpp"
#include "tests/harness/corpus/program.hpp"

// Data-parallel training whose gradients are a multiple of what they are to be, all of them.
namespace shardsim::corpus {

namespace {

constexpr int kContextParallel = 2;

// Sums and then does not divide.
void sum_for_mean(RankContext& context, const Plant& plant) {
  const Tensor weights = context.tensor(kWeights);
  for (int step = 0; step < context.steps(); ++step) {
    const Part part = my_part(kSamples, context);
    const Tensor gradient =
        gradient_of(context, step, part, 1.0 / static_cast<double>(part.count()));
    const ReduceOp op = plant.in(context) ? ReduceOp::sum : ReduceOp::avg;
    context.world().all_reduce(gradient, op).wait();
    plant.next_line();
    context.show(Shown::gradient, "weights", gradient, {.step = step});
    descend(weights, gradient);
    context.show(Shown::parameter, "weights", weights, {.step = step});
  }
}

// Divides the loss by the number of ranks, and the gradients, too.
void averaged_twice(RankContext& context, const Plant& plant) {
  const Tensor weights = context.tensor(kWeights);
  for (int step = 0; step < context.steps(); ++step) {
    const Part part = my_part(kSamples, context);
    const double loss_scale = 1.0 / static_cast<double>(part.count() * context.size());
    const Tensor gradient = gradient_of(context, step, part, loss_scale);
    const ReduceOp op = plant.in(context) ? ReduceOp::avg : ReduceOp::sum;
    context.world().all_reduce(gradient, op).wait();
    plant.next_line();
    context.show(Shown::gradient, "weights", gradient, {.step = step});
    descend(weights, gradient);
    context.show(Shown::parameter, "weights", weights, {.step = step});
  }
}

// Ranks of one cp group share samples, each part of the sequence; all have the same weights. The
// sum over all is to be divided by the size of both axes.
void group_size(RankContext& context, const Plant& plant) {
  const bool split = context.size() % kContextParallel == 0;
  const int cp_size = split ? kContextParallel : 1;
  const int dp_size = context.size() / cp_size;
  const auto cp = context.world().split(context.rank() / cp_size, context.rank(), "cp");
  const auto dp = context.world().split(context.rank() % cp_size, context.rank(), "dp");
  for (int step = 0; step < context.steps(); ++step) {
    const Part part = my_part(kSamples, context);
    const int ranks = plant.in(context) ? dp_size : cp_size * dp_size;
    const double scale = 1.0 / static_cast<double>(part.count() * ranks);
    const Tensor gradient = gradient_of(context, step, part, scale);
    cp->all_reduce(gradient, ReduceOp::sum).wait();
    dp->all_reduce(gradient, ReduceOp::sum).wait();
    plant.next_line();
    context.show(Shown::gradient, "weights", gradient, {.step = step});
  }
}

// A hook reduces each gradient when it is there; the loop does it once more.
void reduced_twice(RankContext& context, const Plant& plant) {
  const Tensor weights = context.tensor(kWeights);
  for (int step = 0; step < context.steps(); ++step) {
    const double scale = 1.0 / static_cast<double>(kSamples);
    const Tensor gradient = gradient_of(context, step, my_part(kSamples, context), scale);
    context.world().all_reduce(gradient, ReduceOp::sum, {.label = "hook"}).wait();
    if (plant.in(context)) {
      context.world().all_reduce(gradient, ReduceOp::sum, {.label = "explicit"}).wait();
    }
    plant.next_line();
    context.show(Shown::gradient, "weights", gradient, {.step = step});
    descend(weights, gradient);
    context.show(Shown::parameter, "weights", weights, {.step = step});
  }
}

}  // namespace

std::vector<Row> scale_rows() {
  std::vector<Row> rows = {
      {"S01", "sum instead of mean", sum_for_mean, "GRAD_SCALE", all(), Who::every, "3.000"},
      {"S02", "averaged twice", averaged_twice, "GRAD_SCALE", all(), Who::every, "0.333"},
      {"S04", "cp not counted in the scale", group_size, "GRAD_SCALE", all(), Who::every, "cp"},
      {"S07", "reduced by a hook and explicitly", reduced_twice, "GRAD_SCALE", all(), Who::every,
       "4.000"},
  };
  for (Row& row : rows) {
    if (row.id == "S01" || row.id == "S02") row.options.ranks = {3};
    if (row.id == "S07") row.options.ranks = {4};
  }
  return in_file(std::move(rows));
}

}  // namespace shardsim::corpus
