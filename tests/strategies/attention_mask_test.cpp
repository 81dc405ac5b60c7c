#include <cmath>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/model/attention_sinks.hpp"

#include "tests/strategies/layer_fixture.hpp"

// M5 and M6: masks against all pairs one by one; sinks, caps and scales against what they say.
namespace shardsim::test {
namespace {

std::vector<std::int64_t> positions_of(std::int64_t seq_len, const SequenceShares& shares) {
  std::vector<std::int64_t> positions;
  for (int i = 0; i < shares.count; ++i) {
    const SequencePart part{shares.first + i, shares.parts};
    for (std::int64_t local = 0; local < part.length(seq_len); ++local) {
      positions.push_back(part.position_of(local, seq_len));
    }
  }
  return positions;
}

// A pair is a unit square: a query at [i, i + 1), a key at [j, j + 1). An edge of the mask runs
// along its diagonal, and leaves half of it.
std::int64_t twice_area(std::int64_t query, std::int64_t key, const AttentionMask& mask) {
  const std::int64_t behind = query - key;
  switch (mask.reach) {
    case AttentionReach::all:
      return 2;
    case AttentionReach::causal:
      return behind < 0 ? 0 : behind == 0 ? 1 : 2;
    case AttentionReach::sliding:
      if (behind < 0 || behind > mask.size) return 0;
      return behind == 0 || behind == mask.size ? 1 : 2;
    case AttentionReach::chunked:
      if (behind < 0 || query / mask.size != key / mask.size) return 0;
      return behind == 0 ? 1 : 2;
  }
  return 0;
}

AttentionWork counted(std::int64_t seq_len, const SequenceShares& queries,
                      const SequenceShares& keys, const AttentionMask& mask) {
  AttentionWork work;
  const std::vector<std::int64_t> q = positions_of(seq_len, queries);
  const std::vector<std::int64_t> k = positions_of(seq_len, keys);
  std::vector<bool> seen(k.size());
  for (const std::int64_t query : q) {
    bool sees = false;
    for (std::size_t i = 0; i < k.size(); ++i) {
      work.twice_pairs += twice_area(query, k[i], mask);
      if (!mask.shows(query, k[i])) continue;
      sees = true;
      seen[i] = true;
    }
    work.query_rows += sees ? 1 : 0;
  }
  for (const bool is_seen : seen) work.key_rows += is_seen ? 1 : 0;
  return work;
}

void check_work(std::int64_t seq_len, const SequenceShares& queries, const SequenceShares& keys,
                const AttentionMask& mask) {
  INFO("s " << seq_len << " mask " << static_cast<int>(mask.reach) << " of " << mask.size
            << " parts " << queries.parts << " queries " << queries.first << "+" << queries.count
            << " keys " << keys.first << "+" << keys.count);
  const AttentionWork actual = attention_work(seq_len, queries, keys, mask);
  const AttentionWork expected = counted(seq_len, queries, keys, mask);
  CHECK(actual.twice_pairs == expected.twice_pairs);
  CHECK(actual.query_rows == expected.query_rows);
  CHECK(actual.key_rows == expected.key_rows);
}

std::vector<AttentionMask> masks_up_to(std::int64_t size) {
  std::vector<AttentionMask> masks = {{AttentionReach::all, 0}, {AttentionReach::causal, 0}};
  for (std::int64_t i = 1; i <= size; ++i) {
    masks.push_back({AttentionReach::sliding, i});
    masks.push_back({AttentionReach::chunked, i});
  }
  return masks;
}

LocalRuntime mask_runtime;

AttentionOutput attended(const AttentionShape& shape) {
  const Tensor q = random_tensor("q", {shape.batch, shape.seq_len, shape.q_row()});
  const Tensor k = random_tensor("k", {shape.batch, shape.seq_len, shape.k_row()});
  const Tensor v = random_tensor("v", {shape.batch, shape.seq_len, shape.v_row()});
  return attention_forward(mask_runtime, shape,
                           {{q, shape.q_row(), 0}, {k, shape.k_row(), 0}, {v, shape.v_row(), 0}});
}

}  // namespace

TEST_CASE("M5: the work of every two shares under every mask is that of all pairs") {
  for (const int parts : {1, 2, 3}) {
    const std::int64_t s = parts == 1 ? 7 : 2 * parts * 3;
    for (const AttentionMask& mask : masks_up_to(s + 2)) {
      for (int q = 0; q < parts; ++q) {
        for (int q_count = 1; q + q_count <= parts; ++q_count) {
          for (int k = 0; k < parts; ++k) {
            for (int k_count = 1; k + k_count <= parts; ++k_count) {
              check_work(s, {q, q_count, parts}, {k, k_count, parts}, mask);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("M5: whole samples count as the formulas say, and a window of all is no window") {
  const auto twice = [](std::int64_t s, const AttentionMask& mask) {
    return attention_work(s, {}, {}, mask).twice_pairs;
  };
  CHECK(twice(4096, {AttentionReach::sliding, 128}) == 2 * 128 * 4096 - 128 * 128);
  CHECK(twice(32768, {AttentionReach::chunked, 8192}) == 8192LL * 32768);
  CHECK(twice(1 << 24, {AttentionReach::chunked, 1}) == 1 << 24);
  AttentionShape shape{.batch = 2, .seq_len = 9, .num_heads = 4, .num_groups = 2, .head_size = 4};
  const AttentionOutput plain = attended(shape);
  for (const AttentionReach reach : {AttentionReach::sliding, AttentionReach::chunked}) {
    for (const std::int64_t size : {9, 10, 100}) {
      shape.mask = {reach, size};
      CHECK(max_difference(attended(shape).y, plain.y) == 0.0);
      CHECK(twice(9, shape.mask) == 81);
    }
    shape.mask = {reach, 8};
    CHECK(max_difference(attended(shape).y, plain.y) > 1e-3);
  }
}

TEST_CASE("M6: a sink takes weight from all keys, and none if it is far below them") {
  const AttentionShape shape{
      .batch = 1, .seq_len = 3, .num_heads = 2, .num_groups = 1, .head_size = 2};
  const AttentionOutput plain = attended(shape);
  const AttentionOutput none = attended(shape);
  add_sinks(mask_runtime, shape, {tensor_of({2}, {-1e30, -1e30}), 0}, none);
  CHECK(max_difference(none.y, plain.y) == 0.0);
  const AttentionOutput out = attended(shape);
  // The second head's, as a rank has it that holds the heads behind two others.
  add_sinks(mask_runtime, shape, {tensor_of({4}, {9, 9, -1e30, 0.5}), 2}, out);
  for (std::int64_t row = 0; row < 3; ++row) {
    const double sum = std::exp(plain.log_sum_exp.get(3 + row));
    const double share = sum / (sum + std::exp(0.5));
    for (std::int64_t i = 0; i < 2; ++i) {
      CHECK(out.y.get(row * 4 + i) == plain.y.get(row * 4 + i));
      CHECK(out.y.get(row * 4 + 2 + i) ==
            Approx(plain.y.get(row * 4 + 2 + i) * share).epsilon(1e-14));
    }
  }
}

TEST_CASE("scores are capped behind their scale") {
  const Tensor q = tensor_of({1, 2, 1}, {0, 2});
  const Tensor k = tensor_of({1, 2, 1}, {3, -1});
  const AttentionShape shape{.batch = 1,
                             .seq_len = 2,
                             .num_heads = 1,
                             .num_groups = 1,
                             .head_size = 1,
                             .scale = 0.5,
                             .score_cap = 2.0};
  const AttentionOutput out =
      attention_forward(mask_runtime, shape, {{q, 1, 0}, {k, 1, 0}, {k, 1, 0}});
  const double first = std::exp(2.0 * std::tanh(3.0 / 2.0));
  const double second = std::exp(2.0 * std::tanh(-1.0 / 2.0));
  CHECK(out.y.get(1) == Approx((3 * first - second) / (first + second)).epsilon(1e-14));
}

}  // namespace shardsim::test
