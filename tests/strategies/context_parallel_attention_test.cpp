#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/strategies/context_parallel_fixture.hpp"

// P43 and P44: attention of ranks that share samples is that of one device, at equal work and at
// the bytes of the formulas.
namespace shardsim::test {
namespace {

// Sums of some dozen products of order one, in another order than on one device: about 1e-15.
constexpr double kAttentionRounding = 1e-12;

AttentionMask mask_of(bool causal) {
  return {causal ? AttentionReach::causal : AttentionReach::all, 0};
}

void check_equal(const ContextCase& c, const DenseAttention& whole, double bound,
                 DType dtype = DType::fp64) {
  std::vector<double> sinks(static_cast<std::size_t>(c.shape.num_heads));
  run_ranks(c.c, [&](Runtime& runtime, Communicator& group) {
    const ContextRun run(c, runtime, group, &whole, dtype);
    const SequencePart part{group.rank(), c.c};
    const auto error = [&](const Tensor& actual, const Tensor& expected) {
      return max_difference(actual, rows_of(expected, c.shape.seq_len, part));
    };
    const Shape queries{c.shape.batch, c.share(), c.q_width()};
    const Shape keys{c.shape.batch, c.share(), c.k_width()};
    const Shape values{c.shape.batch, c.share(), c.v_width()};
    INFO(describe(c) << ", rank " << group.rank());
    CHECK(run.out.own.y.shape() == Shape{c.shape.batch, c.share(), c.y_width()});
    CHECK(error(run.out.own.y, whole.y) <= bound);
    CHECK(error(taken(run.gradients.q, queries), whole.dq) <= bound);
    CHECK(error(taken(run.gradients.k, keys), whole.dk) <= bound);
    CHECK(error(taken(run.gradients.v, values), whole.dv) <= bound);
    for (std::size_t i = 0; c.has_sinks && i < sinks.size(); ++i) {
      sinks[i] += run.sinks.gradient.get(static_cast<std::int64_t>(i));
    }
  });
  for (std::size_t i = 0; c.has_sinks && i < sinks.size(); ++i) {
    INFO(describe(c) << ", sink " << i);
    CHECK(std::fabs(sinks[i] - whole.sinks.gradient.get(static_cast<std::int64_t>(i))) <= bound);
  }
}

}  // namespace

TEST_CASE("P43: attention and its three gradients are those of one device, in every form") {
  for (const int ranks : {2, 3, 4, 6}) {
    for (ContextCase c : forms_of(ranks)) {
      for (const std::int64_t b : {1, 3}) {
        for (const int heads_per_group : {1, 2}) {
          for (const bool causal : {true, false}) {
            const std::int64_t g = ranks;
            c.shape = {.batch = b,
                       .seq_len = 2 * ranks * (b == 1 ? 3 : 1),
                       .num_heads = heads_per_group * g,
                       .num_groups = g,
                       .head_size = 2,
                       .mask = mask_of(causal)};
            c.fused = b == 1;
            check_equal(c, DenseAttention(c), kAttentionRounding);
          }
        }
      }
    }
  }
}

TEST_CASE("P43: windows, chunks, caps, sinks and narrow values are those of one device") {
  for (const int ranks : {2, 4}) {
    const std::int64_t s = 8 * ranks;
    for (ContextCase c : forms_of(ranks)) {
      for (const AttentionMask mask :
           {AttentionMask{AttentionReach::causal, 0}, AttentionMask{AttentionReach::sliding, 1},
            AttentionMask{AttentionReach::sliding, 3},
            AttentionMask{AttentionReach::sliding, s - 1},
            AttentionMask{AttentionReach::chunked, 4}, AttentionMask{AttentionReach::chunked, 7}}) {
        c.shape = {.batch = 2,
                   .seq_len = s,
                   .num_heads = 2 * ranks,
                   .num_groups = ranks,
                   .head_size = 3,
                   .value_size = 2,
                   .mask = mask,
                   .scale = 0.75,
                   .score_cap = 1.5};
        c.has_sinks = true;
        c.fused = mask.size == 3;
        check_equal(c, DenseAttention(c), kAttentionRounding);
      }
    }
  }
}

TEST_CASE("P43: one group of keys for all heads goes round a ring or is gathered") {
  for (const ContextAttention form : {ContextAttention::ring, ContextAttention::all_gather}) {
    ContextCase c{.form = form, .c = 4};
    c.shape = {.batch = 2, .seq_len = 16, .num_heads = 3, .num_groups = 1, .head_size = 4};
    check_equal(c, DenseAttention(c), kAttentionRounding);
  }
}

// Scores of thousands: exp of any, or of the difference of two blocks' largest, overflows.
TEST_CASE("merging blocks does not overflow, however large scores are") {
  for (ContextCase c : forms_of(4)) {
    c.shape = {.batch = 1, .seq_len = 16, .num_heads = 4, .num_groups = 4, .head_size = 4};
    const DenseAttention whole(c, 60.0);
    for (std::int64_t i = 0; i < whole.y.numel(); ++i) REQUIRE(std::isfinite(whole.y.get(i)));
    // Gradients are those of scores 3600 times as large: 60 for each of q and k.
    check_equal(c, whole, 3600 * kAttentionRounding);
  }
}

// Sums over blocks are kept in fp32, so y and dq are rounded to 16 bits once, as on one device:
// they differ by a unit in the last place, 2^-8 of values below 4. Gradients of keys and values are
// rounded at each of up to three hops.
TEST_CASE("in bf16 what is summed over blocks is rounded once") {
  for (ContextCase c : forms_of(4)) {
    c.shape = {.batch = 1, .seq_len = 16, .num_heads = 4, .num_groups = 4, .head_size = 4};
    const DenseAttention whole(c, 1.0, DType::bf16);
    run_ranks(c.c, [&](Runtime& runtime, Communicator& group) {
      const ContextRun run(c, runtime, group, &whole, DType::bf16);
      const Tensor y = rows_of(whole.y, c.shape.seq_len, run.parallel.part());
      const Tensor dq = rows_of(whole.dq, c.shape.seq_len, run.parallel.part());
      const Tensor own_dq = taken(run.gradients.q, dq.shape());
      INFO(describe(c));
      for (std::int64_t i = 0; i < y.numel(); ++i) {
        // y enters dq, rounded.
        CHECK(std::fabs(run.out.own.y.get(i) - y.get(i)) <= std::fabs(y.get(i)) * 0x1p-7);
        CHECK(std::fabs(own_dq.get(i) - dq.get(i)) <= 4.0 * 0x1p-7);
      }
      CHECK(run.out.own.y.dtype() == DType::bf16);
    });
  }
}

TEST_CASE("P44: every rank computes as much, together as much as one device") {
  for (const int ranks : {2, 3, 4, 6}) {
    for (ContextCase c : forms_of(ranks)) {
      for (const bool causal : {true, false}) {
        c.shape = {.batch = 3,
                   .seq_len = 4 * ranks,
                   .num_heads = 2 * ranks,
                   .num_groups = ranks,
                   .head_size = 4,
                   .mask = mask_of(causal)};
        FiberOptions options;
        options.has_data = false;
        options.cluster = test_cluster(ranks);
        FiberWorld world(options);
        world.run([&](Runtime& runtime, Communicator& group) {
          const ContextRun run(c, runtime, group, nullptr);
        });
        INFO(describe(c));
        // 2 b a d s^2 forward and 5 b a d s^2 backward; without a mask all pairs count, not half.
        const std::int64_t s = c.shape.seq_len;
        const std::int64_t whole = (causal ? 7 : 14) * 3 * (2 * ranks) * 4 * s * s;
        for (int rank = 0; rank < ranks; ++rank) {
          CHECK(world.executed_flops(rank) == static_cast<double>(whole) / ranks);
        }
        // 8 bytes each; every rank sends what the formula says.
        for (const std::int64_t bytes : world.sent_by_rank()) {
          CHECK(bytes == 8 * elements_sent(c));
        }
      }
    }
  }
}

TEST_CASE("P44: every step of a ring is the same work, whoever's keys it meets") {
  for (const int c : {1, 2, 3, 4, 7}) {
    for (int u = 1; u <= c; ++u) {
      if (c % u != 0) continue;
      const std::int64_t s = 6 * c;
      for (int queries = 0; queries < c; queries += u) {
        std::int64_t sum = 0;
        for (int keys = 0; keys < c; keys += u) {
          const AttentionWork work = attention_work(s, {queries, u, c}, {keys, u, c}, {});
          INFO("c " << c << " u " << u << ": queries of " << queries << ", keys of " << keys);
          CHECK(work.twice_pairs == s * s * u / c * u / c);
          sum += work.twice_pairs;
        }
        CHECK(sum == attention_work(s, {queries, u, c}, {0, c, c}, {}).twice_pairs);
      }
    }
  }
}

// Run by run, as the convention says it: all of a run before, half of the same one.
TEST_CASE("the work of shares is what counting every run gives") {
  for (const bool causal : {true, false}) {
    for (const int c : {2, 3, 5}) {
      const int all = 2 * c;
      const std::int64_t run = 3;
      const auto is_in = [&](int number, const SequenceShares& shares) {
        const int share = number < c ? number : all - 1 - number;
        return share >= shares.first && share < shares.first + shares.count;
      };
      for (int q_first = 0; q_first < c; ++q_first) {
        for (int q_count = 1; q_first + q_count <= c; ++q_count) {
          for (int k_first = 0; k_first < c; ++k_first) {
            for (int k_count = 1; k_first + k_count <= c; ++k_count) {
              const SequenceShares queries{q_first, q_count, c};
              const SequenceShares keys{k_first, k_count, c};
              AttentionWork expected;
              std::vector<bool> seen(static_cast<std::size_t>(all));
              for (int q = 0; q < all; ++q) {
                bool sees = false;
                for (int k = 0; k < all; ++k) {
                  if (!is_in(q, queries) || !is_in(k, keys) || (causal && k > q)) continue;
                  expected.twice_pairs += (causal && k == q ? 1 : 2) * run * run;
                  sees = true;
                  seen[static_cast<std::size_t>(k)] = true;
                }
                expected.query_rows += sees ? run : 0;
              }
              for (const bool any : seen) expected.key_rows += any ? run : 0;
              const AttentionWork work = attention_work(run * all, queries, keys, mask_of(causal));
              CHECK(work.twice_pairs == expected.twice_pairs);
              CHECK(work.query_rows == expected.query_rows);
              CHECK(work.key_rows == expected.key_rows);
            }
          }
        }
      }
    }
  }
  // The work on a million ranks is known at once, too.
  const int many = 1 << 20;
  const AttentionWork work = attention_work(2LL * many, {5, 1, many}, {0, many, many}, {});
  CHECK(work.twice_pairs == 4LL * many);
}

// Blocks of 2 us or more of computing, hops of less: only what comes home last is waited for.
TEST_CASE("hops of a ring hide behind computing, gathers do not") {
  const auto exposed = [](ContextAttention form) {
    ContextCase c{.form = form, .c = 4};
    c.shape = {.batch = 1, .seq_len = 4096, .num_heads = 16, .num_groups = 16, .head_size = 64};
    FiberOptions options;
    options.has_data = false;
    options.cluster = test_cluster(4);
    FiberWorld world(options);
    Time after_forward;
    Time at_end;
    world.run([&](Runtime& runtime, Communicator& group) {
      ContextParallel parallel(group, form, 1);
      const QueryKeyValue in(runtime, c, c.share(), DType::bf16);
      const QueryKeyValue d(runtime, c, c.share(), DType::bf16);
      const Tensor dy =
          runtime.allocate(MemoryCategory::activations, {1, c.share(), c.q_width()}, DType::bf16);
      const Attended out = parallel.forward(runtime, c.shape, in);
      if (group.rank() == 0) after_forward = world.engine().rank(0).split().exposed_comm;
      parallel.backward(runtime, c.shape, in, out, dy, d);
      if (group.rank() == 0) at_end = world.engine().rank(0).split().exposed_comm;
    });
    return std::vector<Time>{after_forward, at_end - after_forward};
  };
  // A message of 2 x 1024 x 1024 x 2 bytes at 100 GB/s, and 1 us.
  const Time message = Time::from_seconds(2 * 1024 * 1024 * 2 / 100e9 + 1e-6);
  const std::vector<Time> ring = exposed(ContextAttention::ring);
  CHECK(ring[0] == Time());
  // Ranks are not quite in step: some merge half of their rows, others all.
  CHECK(ring[1] >= message);
  CHECK(ring[1] < message + message);
  const std::vector<Time> gather = exposed(ContextAttention::all_gather);
  CHECK(gather[0] > message + message);
  CHECK(gather[1] > gather[0]);
}

TEST_CASE("nothing stays but what backward needs, and then nothing") {
  for (ContextCase c : forms_of(4)) {
    c.shape = {.batch = 2, .seq_len = 16, .num_heads = 8, .num_groups = 4, .head_size = 4};
    FiberOptions options;
    options.cluster = test_cluster(4);
    FiberWorld world(options);
    const DenseAttention whole(c);
    world.run([&](Runtime& runtime, Communicator& group) {
      const std::int64_t before = runtime.ledger()->total_now();
      {
        const ContextRun run(c, runtime, group, &whole);
        const std::int64_t tokens = c.shape.batch * c.share();
        const std::int64_t inputs = 2 * (c.q_width() + 2 * c.k_width()) + c.q_width();
        const std::int64_t statistics = c.shape.num_heads;
        // y; and with exchanged heads q, k, v and y of these.
        const bool exchanges = ulysses_size(c.form, c.c, c.ulysses_degree) > 1;
        const std::int64_t kept = c.q_width() + (exchanges ? 2 * c.q_width() + 2 * c.k_width() : 0);
        INFO(describe(c));
        CHECK(run.after_forward - before == 8 * tokens * (inputs + statistics + kept));
      }
      CHECK(runtime.ledger()->total_now() == before);
    });
  }
}

}  // namespace shardsim::test
