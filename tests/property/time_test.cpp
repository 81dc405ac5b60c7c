#include <algorithm>

#include <catch2/catch.hpp>

#include "tests/backends/fiber_fixture.hpp"
#include "tests/property/check_property.hpp"
#include "tests/property/random_case.hpp"

// Step time is the longest path through computing and communicating.
namespace shardsim::test {

namespace {

Time span_of(const RankRecord& rank) { return rank.end - rank.begin; }

Time step_time(const TrainingResult& result) {
  Time longest;
  for (const RankRecord& rank : result.ranks) longest = max(longest, span_of(rank));
  return longest;
}

// All communications of one stream run one after the other, so none can end before their sum.
Time busiest_stream(const TrainingResult& result) {
  Time busiest;
  for (const RankTrace& trace : result.traces) {
    for (std::size_t track = 1; track < trace.tracks.size(); ++track) {
      Time sum;
      for (const TraceSlice& slice : trace.tracks[track].slices) {
        // Groups are made before the training begins.
        if (std::string(slice.name) != "split") sum += slice.end - slice.begin;
      }
      busiest = max(busiest, sum);
    }
  }
  return busiest;
}

TrainingCase draw_timed_case() {
  TrainingCase c = draw_case();
  c.training.max_grad_norm = *rc::gen::element(0.0, 1.0);
  c.world.has_data = false;
  c.world.cluster = test_cluster(c.mesh.size());
  // From communication that hides behind computing to computing that hides behind communication.
  c.world.cluster.intra_node.latency_s = *rc::gen::element(1e-9, 1e-7, 1e-5);
  c.world.cluster.device.launch_s = *rc::gen::element(0.0, 1e-7, 1e-5);
  for (int rank = 0; rank < c.mesh.size(); ++rank) c.world.traced_ranks.push_back(rank);
  return c;
}

TrainingCase without_overlap(TrainingCase c) {
  c.sync.overlap_reduce = false;
  c.sync.overlap_gather = false;
  return c;
}

// Enough equal layers, and communication as expensive as computing.
TrainingCase overlapping_case(int stage) {
  TrainingCase c;
  c.model.num_layers = 7;
  c.model.hidden_size = c.model.ffn_hidden_size = c.model.vocab_size = 64;
  c.zero_stage = stage;
  c.mesh.dp_shard = 4;
  c.bucket_bytes = c.first_bucket_bytes = 8 * (64 * 64 + 64);
  c.world.has_data = false;
  // Else a step is hardly more than the reduction of the loss, behind which all others queue.
  c.training.micro_batch_size = 64;
  c.world.cluster = test_cluster(4);
  c.world.cluster.intra_node.latency_s = 1e-9;
  return c;
}

}  // namespace

TEST_CASE("P28: a step is as long as its computing and as its busiest stream, at least") {
  check_property(200, [] {
    const TrainingCase c = draw_timed_case();
    RC_LOG() << describe(c) << "\n";
    const TrainingResult result = run(c);
    for (const RankRecord& rank : result.ranks) RC_ASSERT(span_of(rank) >= rank.split.compute);
    RC_ASSERT(step_time(result) >= busiest_stream(result));
  });
}

TEST_CASE("P28: with a network that costs nothing a step is its computing") {
  check_property(100, [] {
    TrainingCase c = draw_timed_case();
    c.world.cluster.intra_node = {.bytes_per_s = 1e300, .latency_s = 0.0};
    RC_LOG() << describe(c) << "\n";
    const TrainingResult result = run(c);
    for (const RankRecord& rank : result.ranks) {
      RC_ASSERT(span_of(rank) == rank.split.compute);
    }
  });
}

// Ranks are alike here. Then without overlap a step is the sum of all computing and communicating;
// with overlap something is always running, and nothing runs that did not before.
TEST_CASE("P28: overlap is never slower than none") {
  check_property(200, [] {
    const TrainingCase c = draw_timed_case();
    RC_LOG() << describe(c) << "\n";
    const Time with = step_time(run(c));
    const Time without = step_time(run(without_overlap(c)));
    RC_LOG() << with.picoseconds() << " ps with, " << without.picoseconds() << " ps without\n";
    RC_ASSERT(with <= without);
  });
}

TEST_CASE("P21, P28: overlap makes every stage faster where there is something to overlap") {
  for (int stage = 0; stage <= 3; ++stage) {
    const TrainingCase c = overlapping_case(stage);
    CHECK(step_time(run(c)) < step_time(run(without_overlap(c))));
  }
}

TEST_CASE("P28: prefetching units makes FSDP faster") {
  TrainingCase c = overlapping_case(3);
  const Time ahead = step_time(run(c));
  c.sync.prefetch_units = 0;
  CHECK(ahead < step_time(run(c)));
}

TEST_CASE("P28: more latency or less bandwidth never shortens a step") {
  check_property(100, [] {
    TrainingCase c = draw_timed_case();
    RC_LOG() << describe(c) << "\n";
    const Time before = step_time(run(c));
    Link& link = c.world.cluster.intra_node;
    link.latency_s *= *rc::gen::element(1.0, 3.0);
    link.bytes_per_s *= 1.0 / (*rc::gen::element(1.0, 5.0));
    RC_ASSERT(step_time(run(c)) >= before);
  });
}

}  // namespace shardsim::test
