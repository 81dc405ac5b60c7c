#include "strategies/model/sequence_part.hpp"

#include <algorithm>
#include <array>

#include "strategies/model/layer.hpp"

namespace shardsim {

namespace {

// Neighbouring runs of positions, numbered as in SequencePart.
struct Runs {
  std::int64_t first = 0;
  std::int64_t end = 0;
};

// Shares lie in both halves of a sample. A sample that is not cut is one run.
std::array<Runs, 2> runs_of(const SequenceShares& shares) {
  if (shares.parts == 1) return {{{0, 1}, {1, 1}}};
  const std::int64_t all = 2 * std::int64_t{shares.parts};
  const std::int64_t end = std::int64_t{shares.first} + shares.count;
  return {{{shares.first, end}, {all - end, all - shares.first}}};
}

// Twice the pairs, in squares of runs, of queries in runs [0, q) and keys in runs [0, k). Run i
// sees the i runs before it, and half of itself: the first q see q^2 halves.
std::int64_t twice_pairs_below(std::int64_t q, std::int64_t k, bool causal) {
  if (!causal) return 2 * q * k;
  const std::int64_t square = std::min(q, k);
  return square * square + 2 * (q - square) * k;
}

std::int64_t count_from(const Runs& runs, std::int64_t first) {
  return std::max<std::int64_t>(0, runs.end - std::max(runs.first, first));
}
std::int64_t count_below(const Runs& runs, std::int64_t end) {
  return std::max<std::int64_t>(0, std::min(runs.end, end) - runs.first);
}

}  // namespace

AttentionWork attention_work(std::int64_t seq_len, const SequenceShares& queries,
                             const SequenceShares& keys, bool causal) {
  require_size("attention", "number of parts of keys", keys.parts, queries.parts);
  const std::int64_t run =
      queries.parts == 1 ? seq_len : seq_len / (2 * std::int64_t{queries.parts});
  const std::array<Runs, 2> q_runs = runs_of(queries);
  const std::array<Runs, 2> k_runs = runs_of(keys);
  std::int64_t twice_pairs = 0;
  std::int64_t seeing = 0;
  std::int64_t seen = 0;
  // Run i of the queries sees the runs of keys up to i.
  const std::int64_t first_key = causal ? k_runs[0].first : 0;
  const std::int64_t end_query =
      causal ? std::max(q_runs[0].end, q_runs[1].end) : 2 * std::int64_t{keys.parts};
  for (const Runs& q : q_runs) {
    for (const Runs& k : k_runs) {
      twice_pairs +=
          twice_pairs_below(q.end, k.end, causal) + twice_pairs_below(q.first, k.first, causal) -
          twice_pairs_below(q.first, k.end, causal) - twice_pairs_below(q.end, k.first, causal);
    }
    seeing += count_from(q, first_key);
  }
  for (const Runs& k : k_runs) seen += count_below(k, end_query);
  return {.twice_pairs = checked_product({twice_pairs, run, run}),
          .query_rows = seeing * run,
          .key_rows = seen * run};
}

}  // namespace shardsim
