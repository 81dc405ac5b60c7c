#include "tests/harness/corpus/corpus_row.hpp"
#include "tests/harness/corpus/program.hpp"

// Numbers that depend on the samples and tokens of a rank: random streams, experts, positions.
namespace shardsim::corpus {

namespace {

constexpr std::int64_t kBatch = 24;

// The mask of a sample is drawn by its place on the rank, not in the batch: ranks drop alike.
void dropout_equal(RankContext& context, const Plant& plant) {
  const Part part = my_part(kBatch, context);
  for (int step = 0; step < context.steps(); ++step) {
    const std::int64_t first = step * kBatch + (plant.in(context) ? 0 : part.first);
    const Tensor noise = context.tensor(
        part.count(), [&](std::int64_t i) { return context.draw("dropout", first + i); });
    const ShowOptions shard = {.first = part.first, .whole = kBatch, .step = step};
    plant.next_line();
    context.show(Shown::random, "dropout", noise, shard);
  }
}

// All ranks of a tensor-parallel group need one mask, and each draws its own.
void dropout_differs(RankContext& context, const Plant& plant) {
  for (int step = 0; step < context.steps(); ++step) {
    const int stream = plant.in(context) ? context.rank() : 0;
    const std::int64_t first = (stream * context.steps() + step) * kBatch;
    const Tensor noise =
        context.tensor(kBatch, [&](std::int64_t i) { return context.draw("dropout", first + i); });
    plant.next_line();
    context.show(Shown::random, "dropout", noise, {.step = step});
  }
}

// --- Positions -----------------------------------------------------------------------------------

double value_at(const RankContext& context, std::int64_t position) {
  constexpr double kNeverZero = 9.0;
  return whole_number(context, "value", position) + kNeverZero;
}

void positions_start_again(RankContext& context, const Plant& plant) {
  const Part part = my_part(kBatch, context);
  const std::int64_t offset = plant.in(context) ? 0 : part.first;
  const Tensor output = context.tensor(part.count(), [&](std::int64_t i) {
    return static_cast<double>(offset + i) * value_at(context, part.first + i);
  });
  plant.next_line();
  context.show(Shown::output, "attention", output, {.first = part.first, .whole = kBatch});
}

// Every position sees itself and the one before it, which may lie on another rank; the mask of the
// wrong program ends at the shard's edge.
void mask_edge(RankContext& context, const Plant& plant) {
  const Part part = my_part(kBatch, context);
  const Tensor right_edge =
      context.tensor(1, [&](std::int64_t) { return value_at(context, part.last - 1); });
  const Tensor before = context.tensor(1);
  std::vector<P2pOp> exchange;
  if (!is_last(context)) exchange.push_back({P2pOp::Kind::send, right_edge, context.rank() + 1});
  if (context.rank() > 0) exchange.push_back({P2pOp::Kind::recv, before, context.rank() - 1});
  if (!exchange.empty()) context.world().batch(exchange).wait();
  const Tensor output = context.tensor(part.count(), [&](std::int64_t i) {
    const double halo = plant.in(context) ? 0.0 : before.get(0);
    const double left = i > 0 ? value_at(context, part.first + i - 1) : halo;
    return 2.0 * left + value_at(context, part.first + i);
  });
  plant.next_line();
  context.show(Shown::output, "attention", output, {.first = part.first, .whole = kBatch});
}

}  // namespace

std::vector<Row> stream_rows() {
  std::vector<Row> rows = {
      {"S13", "dropout equal over DP", dropout_equal, "RNG_STREAM", all(1), Who::first, "dropout"},
      {"S13", "dropout differs over TP", dropout_differs, "RNG_STREAM", all(1), Who::first,
       "dropout"},
      {"S15", "positions start again on each shard", positions_start_again, "OUT_DIFF", all(1),
       Who::first, "12"},
      {"S15", "mask ends at the shard's edge", mask_edge, "OUT_DIFF", all(1), Who::first, "12"},
  };
  for (Row& row : rows) {
    if (row.id == "S15") row.options.ranks = {2};
  }
  return in_file(std::move(rows));
}

}  // namespace shardsim::corpus
