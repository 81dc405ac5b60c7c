#include "tests/harness/corpus/corpus_row.hpp"
#include "tests/harness/corpus/program.hpp"

// A mixture of 8 experts over the ranks, and 37 tokens: a prime.
namespace shardsim::corpus {

namespace {

constexpr std::int64_t kTokens = 37;
constexpr std::int64_t kExperts = 8;

// Expert 0 is wanted by all of the last tokens.
std::int64_t expert_of(std::int64_t token) {
  constexpr std::int64_t kHotFrom = 30;
  constexpr std::int64_t kStride = 3;
  return token >= kHotFrom ? 0 : token * kStride % kExperts;
}

// Which tokens `from` sends to `to`, at most `capacity`.
std::vector<std::int64_t> routed(int from, int to, int size, std::int64_t capacity) {
  const Part tokens = part_of(kTokens, from, size);
  const Part experts = part_of(kExperts, to, size);
  std::vector<std::int64_t> result;
  for (std::int64_t token = tokens.first; token < tokens.last; ++token) {
    const std::int64_t expert = expert_of(token);
    const bool there = expert >= experts.first && expert < experts.last;
    if (there && std::ssize(result) < capacity) result.push_back(token);
  }
  return result;
}

// The capacity of a buffer: twice the tokens of an even spread.
std::int64_t tight_capacity(int from, int size) {
  return 2 * ((part_of(kTokens, from, size).count() + size - 1) / size);
}

// Tokens that this rank has sent and got, in the order of the buffers.
struct Route {
  std::vector<std::int64_t> sent, got;
  std::vector<std::int64_t> send_counts, recv_counts;
};

Route route_of(const RankContext& context, bool tight) {
  Route route;
  const int size = context.size();
  const auto add = [&](int from, int to, auto& tokens, auto& counts) {
    const std::int64_t capacity = tight ? tight_capacity(from, size) : kTokens;
    const std::vector<std::int64_t> more = routed(from, to, size, capacity);
    tokens.insert(tokens.end(), more.begin(), more.end());
    counts.push_back(std::ssize(more));
  };
  for (int rank = 0; rank < size; ++rank) {
    add(context.rank(), rank, route.sent, route.send_counts);
    add(rank, context.rank(), route.got, route.recv_counts);
  }
  return route;
}

double value_of(std::int64_t token) { return static_cast<double>(token + 1); }

// Sends each token to its expert.
Tensor dispatch(RankContext& context, const Route& route) {
  const Tensor out = context.tensor(std::ssize(route.sent), [&](std::int64_t i) {
    return value_of(route.sent[static_cast<std::size_t>(i)]);
  });
  const Tensor in = context.tensor(std::ssize(route.got));
  context.world().all_to_all(in, out, route.send_counts, route.recv_counts).wait();
  return in;
}

// Tokens beyond a rank's capacity for another are left out.
void over_capacity(RankContext& context, const Plant& plant) {
  const Route route = route_of(context, plant.in(context));
  const Tensor at_expert = dispatch(context, route);
  for (std::int64_t i = 0; i < at_expert.numel(); ++i) {
    const std::int64_t expert = expert_of(route.got[static_cast<std::size_t>(i)]);
    at_expert.set(i, at_expert.get(i) * static_cast<double>(expert + 1));
  }
  const Tensor back = context.tensor(std::ssize(route.sent));
  context.world().all_to_all(back, at_expert, route.recv_counts, route.send_counts).wait();
  const Part mine = my_part(kTokens, context);
  const Tensor combined = context.tensor(mine.count());
  for (std::int64_t i = 0; i < back.numel(); ++i) {
    combined.set(route.sent[static_cast<std::size_t>(i)] - mine.first, back.get(i));
  }
  plant.next_line();
  context.show(Shown::tokens, "combined", combined, {.first = mine.first, .whole = kTokens});
}

Culprits ranks_over_capacity() {
  return [](int size) {
    std::vector<int> ranks;
    for (int from = 0; from < size; ++from) {
      const std::int64_t capacity = tight_capacity(from, size);
      bool over = false;
      for (int to = 0; to < size; ++to) {
        over |= std::ssize(routed(from, to, size, kTokens)) > capacity;
      }
      if (over) ranks.push_back(from);
    }
    return ranks;
  };
}

// Each rank takes as many tokens; some are left over.
void left_over(RankContext& context, const Plant& plant) {
  Part mine = my_part(kTokens, context);
  const std::int64_t each = kTokens / context.size();
  if (plant.in(context)) mine = {context.rank() * each, (context.rank() + 1) * each};
  const Tensor tokens =
      context.tensor(mine.count(), [&](std::int64_t i) { return value_of(mine.first + i); });
  plant.next_line();
  context.show(Shown::tokens, "batch", tokens, {.first = mine.first, .whole = kTokens});
}

// An expert's rank gets the tokens of all ranks: nothing is to be averaged any more.
void expert_scale(RankContext& context, const Plant& plant) {
  const Part experts = my_part(kExperts, context);
  const Route route = route_of(context, false);
  const Tensor at_expert = dispatch(context, route);
  const double scale = plant.in(context) ? 1.0 / context.size() : 1.0;
  const Tensor gradient = context.tensor(experts.count(), [&](std::int64_t expert) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < at_expert.numel(); ++i) {
      const std::int64_t token = route.got[static_cast<std::size_t>(i)];
      if (expert_of(token) == experts.first + expert) sum += at_expert.get(i);
    }
    return sum * scale;
  });
  const ShowOptions shard = {.first = experts.first, .whole = kExperts};
  plant.next_line();
  context.show(Shown::gradient, "experts", gradient, shard);
}

}  // namespace

std::vector<Row> expert_rows() {
  constexpr int kFour = 4;
  std::vector<Row> rows = {
      {"S14", "tokens over capacity are lost", over_capacity, "TOKEN_LOST", ranks_over_capacity(),
       Who::first, "combined"},
      {"S14", "tokens left over belong to nobody", left_over, "TOKEN_LOST", last(), Who::first,
       "element 32"},
      {"S14", "expert gradients averaged over DP", expert_scale, "GRAD_SCALE", all(), Who::every,
       "0.125"},
  };
  rows.front().fewest_ranks = kFour;
  return in_file(std::move(rows));
}

}  // namespace shardsim::corpus
