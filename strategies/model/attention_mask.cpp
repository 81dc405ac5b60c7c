#include "strategies/model/attention_mask.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "strategies/model/layer.hpp"

namespace shardsim {

namespace {

// Positions [first, end).
struct Positions {
  std::int64_t first = 0;
  std::int64_t end = 0;

  [[nodiscard]] std::int64_t count() const { return std::max<std::int64_t>(0, end - first); }
};

Positions overlap(const Positions& a, const Positions& b) {
  return {std::max(a.first, b.first), std::min(a.end, b.end)};
}

// Shares lie in both halves of a sample. A sample that is not cut is one run.
std::array<Positions, 2> runs_of(std::int64_t seq_len, const SequenceShares& shares) {
  if (shares.parts == 1) return {{{0, seq_len}, {seq_len, seq_len}}};
  const std::int64_t run = seq_len / (2 * std::int64_t{shares.parts});
  const std::int64_t end = (std::int64_t{shares.first} + shares.count) * run;
  return {{{shares.first * run, end}, {seq_len - end, seq_len - shares.first * run}}};
}

// How many of `rows` are in one of two ranges.
std::int64_t count_in(const Positions& rows, const std::array<Positions, 2>& ranges) {
  const Positions a = overlap(rows, ranges[0]);
  const Positions b = overlap(rows, ranges[1]);
  return a.count() + b.count() - overlap(a, b).count();
}

// Twice the area where a query is at least `distance` behind a key.
std::int64_t twice_behind(const Positions& q, const Positions& k, std::int64_t distance) {
  const auto square = [&](std::int64_t query, std::int64_t key) {
    const std::int64_t side = std::max<std::int64_t>(0, query - key - distance);
    return side * side;
  };
  return square(q.end, k.first) - square(q.first, k.first) - square(q.end, k.end) +
         square(q.first, k.end);
}

// Chunks that are cut by an end of queries or keys are taken one by one; the others are whole.
std::int64_t twice_in_chunks(const Positions& q, const Positions& k, std::int64_t size) {
  const std::int64_t first = std::max(q.first, k.first) / size;
  const std::int64_t end = (std::min(q.end, k.end) - 1) / size + 1;
  if (first >= end) return 0;
  std::array<std::int64_t, 4> cut = {q.first / size, k.first / size, (q.end - 1) / size,
                                     (k.end - 1) / size};
  std::sort(cut.begin(), cut.end());
  std::int64_t whole = end - first;
  std::int64_t twice = 0;
  for (std::size_t i = 0; i < cut.size(); ++i) {
    const std::int64_t chunk = cut.at(i);
    if (chunk < first || chunk >= end || (i > 0 && cut.at(i - 1) == chunk)) continue;
    const Positions here{chunk * size, (chunk + 1) * size};
    twice += twice_behind(overlap(q, here), overlap(k, here), 0);
    --whole;
  }
  return twice + whole * size * size;
}

std::int64_t twice_pairs(const Positions& q, const Positions& k, const AttentionMask& mask) {
  if (q.count() == 0 || k.count() == 0) return 0;
  switch (mask.reach) {
    case AttentionReach::all:
      return 2 * q.count() * k.count();
    case AttentionReach::causal:
      return twice_behind(q, k, 0);
    case AttentionReach::sliding:
      return twice_behind(q, k, 0) - twice_behind(q, k, mask.size);
    case AttentionReach::chunked:
      return twice_in_chunks(q, k, mask.size);
  }
  return 0;
}

constexpr std::int64_t kEverywhere = std::numeric_limits<std::int64_t>::max();

// Where a query stands that sees some of these keys.
Positions that_see(const Positions& k, const AttentionMask& mask) {
  if (k.count() == 0) return {};
  switch (mask.reach) {
    case AttentionReach::all:
      return {0, kEverywhere};
    case AttentionReach::causal:
      return {k.first, kEverywhere};
    case AttentionReach::sliding:
      return {k.first, k.end - 1 + mask.size};
    case AttentionReach::chunked:
      return {k.first, ((k.end - 1) / mask.size + 1) * mask.size};
  }
  return {};
}

// Where a key stands that some of these queries see.
Positions seen_by(const Positions& q, const AttentionMask& mask) {
  if (q.count() == 0) return {};
  switch (mask.reach) {
    case AttentionReach::all:
      return {0, kEverywhere};
    case AttentionReach::causal:
      return {0, q.end};
    case AttentionReach::sliding:
      return {q.first - mask.size + 1, q.end};
    case AttentionReach::chunked:
      return {q.first / mask.size * mask.size, q.end};
  }
  return {};
}

}  // namespace

AttentionWork attention_work(std::int64_t seq_len, const SequenceShares& queries,
                             const SequenceShares& keys, const AttentionMask& mask) {
  require_size("attention", "number of parts of keys", keys.parts, queries.parts);
  const std::array<Positions, 2> q = runs_of(seq_len, queries);
  const std::array<Positions, 2> k = runs_of(seq_len, keys);
  AttentionWork work;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) work.twice_pairs += twice_pairs(q.at(i), k.at(j), mask);
    work.query_rows += count_in(q.at(i), {that_see(k[0], mask), that_see(k[1], mask)});
    work.key_rows += count_in(k.at(i), {seen_by(q[0], mask), seen_by(q[1], mask)});
  }
  return work;
}

}  // namespace shardsim
