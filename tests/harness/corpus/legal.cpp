#include "tests/harness/corpus/corpus_row.hpp"
#include "tests/harness/corpus/program.hpp"

// Programs that look odd and are right: not a word must be said of them.
namespace shardsim::corpus {

namespace {

constexpr std::int64_t kLegalCount = 4;

void different_lines(RankContext& context, const Plant&) {
  const Tensor buffer = context.tensor(kLegalCount);
  const auto here = [&] { context.world().all_reduce(buffer, ReduceOp::sum).wait(); };
  const auto there = [&] { context.world().all_reduce(buffer, ReduceOp::sum).wait(); };
  context.rank() == 0 ? here() : there();
}

void disjoint_groups(RankContext& context, const Plant&) {
  const bool first_half = context.rank() < context.size() / 2;
  const auto group = context.world().split(first_half ? 0 : 1, context.rank(), "half");
  const Tensor part = context.tensor(kLegalCount);
  const Tensor full = context.tensor(kLegalCount * group->size());
  if (first_half) group->all_gather(full, part).wait();
  group->all_reduce(part, ReduceOp::sum).wait();
  if (!first_half) group->all_gather(full, part).wait();
}

void slow_rank(RankContext& context, const Plant&) {
  constexpr std::int64_t kBytes = std::int64_t{1} << 40;
  if (is_last(context)) {
    context.runtime().compute({"slow", ComputeKind::memory_bound, DType::fp64, 0, kBytes}, [] {});
  }
  context.world().barrier().wait();
  const Tensor buffer = context.tensor(kLegalCount);
  context.world().all_reduce(buffer, ReduceOp::sum).wait();
}

void waits_out_of_order(RankContext& context, const Plant&) {
  const Tensor a = context.tensor(kLegalCount);
  const Tensor b = context.tensor(kLegalCount);
  Work first = context.world().all_reduce(a, ReduceOp::sum);
  Work second = context.world().all_reduce(b, ReduceOp::sum);
  if (context.rank() % 2 == 0) second.wait();
  first.wait();
  second.wait();
}

void uneven_gather(RankContext& context, const Plant&) {
  std::vector<std::int64_t> counts;
  for (int rank = 0; rank < context.size(); ++rank) counts.push_back(rank);
  const std::int64_t whole = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const Tensor part = context.tensor(context.rank());
  const Tensor full = context.tensor(whole);
  context.world().all_gather(full, part, {.counts = counts}).wait();
}

void zero_size(RankContext& context, const Plant&) {
  const Tensor nothing = context.tensor(0);
  context.world().all_reduce(nothing, ReduceOp::sum).wait();
  context.world().all_gather(nothing, nothing).wait();
  const int right = (context.rank() + 1) % context.size();
  const int left = (context.rank() + context.size() - 1) % context.size();
  Work send = context.messages().send(nothing, right, 0);
  context.messages().recv(nothing, left, 0).wait();
  send.wait();
  context.show(Shown::output, "nothing", nothing);
}

void self_send(RankContext& context, const Plant&) {
  const auto value = [](std::int64_t i) { return static_cast<double>(i); };
  const Tensor out = context.tensor(kLegalCount, value);
  const Tensor in = context.tensor(kLegalCount);
  Work send = context.messages().send(out, context.rank(), 0);
  context.messages().recv(in, context.rank(), 0).wait();
  send.wait();
  context.show(Shown::output, "message", in);
  const Tensor on_stream = context.tensor(kLegalCount);
  const P2pOp both[] = {{P2pOp::Kind::send, out, context.rank()},
                        {P2pOp::Kind::recv, on_stream, context.rank()}};
  context.world().batch(both).wait();
  context.show(Shown::output, "on the stream", on_stream);
}

void group_of_one(RankContext& context, const Plant&) {
  const auto alone = context.world().split(context.rank(), 0, "alone");
  const Tensor buffer =
      context.tensor(kLegalCount, [](std::int64_t i) { return static_cast<double>(i); });
  const Tensor copy = context.tensor(kLegalCount);
  alone->all_reduce(buffer, ReduceOp::sum).wait();
  alone->broadcast(buffer, 0).wait();
  alone->all_gather(copy, buffer).wait();
  alone->barrier().wait();
  context.show(Shown::output, "copy", copy);
}

// Along a chain from the last rank to the first: another order than that of the reference, with
// numbers for which it matters in the last digits.
void reordered_sums(RankContext& context, const Plant&) {
  const int rank = context.rank();
  const Part mine = my_part(kSamples, context);
  const Tensor sum = context.tensor(kLegalCount);
  if (!is_last(context)) context.world().recv(sum, rank + 1).wait();
  for (std::int64_t element = 0; element < kLegalCount; ++element) {
    for (std::int64_t i = mine.last; i-- > mine.first;) {
      sum.set(element, sum.get(element) + context.draw("sample", i * kLegalCount + element));
    }
  }
  if (rank > 0) context.world().send(sum, rank - 1).wait();
  context.world().broadcast(sum, 0).wait();
  context.show(Shown::gradient, "weights", sum);
  // The other way round on the same data: by a tree, whatever the backend's is.
  const Tensor reduced = context.tensor(kLegalCount);
  for (std::int64_t element = 0; element < kLegalCount; ++element) {
    for (std::int64_t i = mine.first; i < mine.last; ++i) {
      reduced.set(element,
                  reduced.get(element) + context.draw("sample", i * kLegalCount + element));
    }
  }
  context.world().all_reduce(reduced, ReduceOp::sum).wait();
  context.show(Shown::gradient, "weights again", reduced);
}

}  // namespace

std::vector<Row> legal_rows() {
  std::vector<Row> rows = {
      {"N01", "one collective called from different lines", different_lines},
      {"N02", "order differs on disjoint groups", disjoint_groups},
      {"N03", "slow rank", slow_rank},
      {"N04", "waits out of order", waits_out_of_order},
      {"N05", "uneven gather", uneven_gather},
      {"N06", "zero-size buffers", zero_size},
      {"N07", "send to oneself", self_send},
      {"N08", "group of one", group_of_one},
      {"N09", "sums in another order", reordered_sums},
  };
  for (Row& row : rows) row.options.ranks = {1, 2, 3, 4, 8};
  return in_file(std::move(rows));
}

}  // namespace shardsim::corpus
