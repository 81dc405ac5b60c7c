#include "tests/harness/corpus/corpus_row.hpp"
#include "tests/harness/corpus/program.hpp"

// State that is spread over ranks: gathered too early, cut wrongly, put together wrongly.
namespace shardsim::corpus {

namespace {

// Each rank updates its shard of the weights; all are gathered for the next step.
void stale_weights(RankContext& context, const Plant& plant) {
  const Part part = my_part(kWeights, context);
  std::vector<std::int64_t> counts;
  for (int rank = 0; rank < context.size(); ++rank) {
    counts.push_back(part_of(kWeights, rank, context.size()).count());
  }
  const auto initial = [&](std::int64_t i) { return whole_number(context, "initial", i); };
  const Tensor weights = context.tensor(kWeights, initial);
  const Tensor shard =
      context.tensor(part.count(), [&](std::int64_t i) { return initial(part.first + i); });
  const auto gather = [&] {
    context.world().all_gather(weights, shard, {.counts = counts}).wait();
  };
  context.show(Shown::parameter, "weights", weights);
  for (int step = 0; step < context.steps(); ++step) {
    const double scale = 1.0 / static_cast<double>(kSamples);
    const Tensor gradient = gradient_of(context, step, my_part(kSamples, context), scale);
    context.world().all_reduce(gradient, ReduceOp::sum).wait();
    for (std::int64_t i = 0; i < kWeights; ++i)
      gradient.set(i, gradient.get(i) + weights.get(i) + 1);
    if (plant.in(context)) gather();
    descend(shard, gradient, part.first);
    if (!plant.in(context)) gather();
    plant.next_line();
    context.show(Shown::parameter, "weights", weights, {.step = step + 1});
  }
}

constexpr std::int64_t kPrime = 7;

void show_shard(RankContext& context, const Plant& plant, const Part& part) {
  const Tensor momentum = context.tensor(part.count(), [&](std::int64_t i) {
    return whole_number(context, "momentum", part.first + i);
  });
  plant.next_line();
  context.show(Shown::optimizer_state, "momentum", momentum,
               {.first = part.first, .whole = kPrime});
}

Part chunk(std::int64_t chunk_size, int rank) {
  return {std::min(kPrime, chunk_size * rank), std::min(kPrime, chunk_size * (rank + 1))};
}

std::int64_t rounded_up(const RankContext& context) {
  return (kPrime + context.size() - 1) / context.size();
}

// Chunks of 7 / ranks rounded down: the last elements are nobody's.
void shard_gap(RankContext& context, const Plant& plant) {
  const std::int64_t chunk_size = plant.in(context) ? kPrime / context.size() : rounded_up(context);
  show_shard(context, plant, chunk(chunk_size, context.rank()));
}

// The last rank begins one element early.
void shard_overlap(RankContext& context, const Plant& plant) {
  Part part = chunk(rounded_up(context), context.rank());
  if (plant.in(context) && is_last(context)) --part.first;
  show_shard(context, plant, part);
}

// --- Tensor parallelism over all ranks becomes one over half of them ----------------------------

constexpr std::int64_t kThird = 24;  // Elements of Q, of K and of V; divisible by 2, 4, 6 and 8.
constexpr int kThirds = 3;

// Each rank holds its parts of Q, K and V, one behind the other. Afterwards, two old shards make a
// new one, which two ranks hold. The bug: they are put behind each other as they are.
void reshard(RankContext& context, const Plant& plant, Shown what, const std::string& name,
             const std::function<Tensor(const Tensor&)>& reload) {
  const int size = context.size();
  const bool halves = size % 2 == 0 && kThird % size == 0;
  const std::int64_t old_part = halves ? kThird / size : kThird;
  const int old_shard = halves ? context.rank() : 0;
  const Tensor fused = context.tensor(kThirds * old_part, [&](std::int64_t i) {
    const std::int64_t index = i / old_part * kThird + old_shard * old_part + i % old_part;
    return static_cast<double>(index + 1);
  });
  const Tensor full = context.tensor(fused.numel() * size);
  context.world().all_gather(full, fused).wait();
  const Tensor loaded = reload(full);
  const int joined = halves ? 2 : 1;
  const int new_shard = halves ? context.rank() % (size / 2) : 0;
  const std::int64_t new_part = joined * old_part;
  const std::int64_t begin = new_shard * joined * fused.numel();
  for (int third = 0; third < kThirds; ++third) {
    const Tensor part = context.tensor(new_part, [&](std::int64_t i) {
      const std::int64_t as_it_lies = third * new_part + i;
      const std::int64_t by_shard = i / old_part * fused.numel() + third * old_part + i % old_part;
      const bool wrong = plant.in(context) && what == Shown::parameter;
      return loaded.get(begin + (wrong ? as_it_lies : by_shard));
    });
    const std::int64_t first = third * kThird + new_shard * new_part;
    plant.next_line();
    context.show(what, name, part, {.first = first, .whole = kThirds * kThird});
  }
}

void qkv_permuted(RankContext& context, const Plant& plant) {
  reshard(context, plant, Shown::parameter, "attention.qkv",
          [](const Tensor& state) { return state; });
}

void state_dropped(RankContext& context, const Plant& plant) {
  reshard(context, plant, Shown::optimizer_state, "attention.qkv momentum",
          [&](const Tensor& state) {
            return plant.in(context) ? context.tensor(state.numel()) : state;
          });
}

}  // namespace

std::vector<Row> shard_rows() {
  const auto last_two = [](int size) { return std::vector<int>{size - 2, size - 1}; };
  std::vector<Row> rows = {
      {"S08", "stale weights: gathered before the step", stale_weights, "PARAM_STALE", all(),
       Who::every, "weights"},
      {"S09", "shards leave a gap", shard_gap, "SHARD_COVER", last(), Who::first, "element 4"},
      {"S09", "shards overlap", shard_overlap, "SHARD_COVER", last_two, Who::every, "element 5"},
      {"S16", "reshard permutes QKV", qkv_permuted, "STATE_DIFF", all(), Who::every,
       "attention.qkv"},
      {"S16", "reshard drops optimizer state", state_dropped, "STATE_DIFF", all(), Who::every,
       "attention.qkv momentum"},
  };
  for (Row& row : rows) {
    if (row.id != "S08") row.options.ranks = {4};
  }
  return in_file(std::move(rows));
}

}  // namespace shardsim::corpus
