#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/backends/fiber_fixture.hpp"
#include "tests/strategies/training_case.hpp"

// Overlap of operations within a step, read off the trace of one rank.
namespace shardsim::test {

namespace {

constexpr int kOverlapLayers = 8;

// Equal layers, each a bucket and a unit, of two microbatches.
TrainingCase traced_case(int stage) {
  TrainingCase c;
  c.model.num_layers = kOverlapLayers - 1;
  c.model.hidden_size = c.model.ffn_hidden_size = c.model.vocab_size = 64;
  c.zero_stage = stage;
  c.mesh.dp_shard = 4;
  c.training.num_microbatches = 2;
  c.training.micro_batch_size = 64;
  c.bucket_bytes = c.first_bucket_bytes = 8 * (64 * 64 + 64);
  c.world.has_data = false;
  c.world.cluster = test_cluster(4);
  // Less than a layer takes, so that reductions need not queue behind that of the loss.
  c.world.cluster.intra_node.latency_s = 1e-9;
  c.world.traced_ranks = {1};
  return c;
}

bool begins_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

struct Span {
  Time first;  // Begin of the first slice.
  Time last;   // End of the last.
  int count = 0;
};

// The span of the slices on the compute track, or else on all others. Their names begin with `name`
// and their labels with `label`.
Span span_of(const TrainingResult& result, bool compute, std::string_view name,
             std::string_view label = {}) {
  Span span;
  const RankTrace& trace = result.traces.front();
  for (std::size_t track = compute ? 0 : 1; track < (compute ? 1 : trace.tracks.size()); ++track) {
    for (const TraceSlice& slice : trace.tracks[track].slices) {
      if (!begins_with(slice.name, name) || !begins_with(slice.label, label)) continue;
      if (span.count++ == 0 || slice.begin < span.first) span.first = slice.begin;
      span.last = max(span.last, slice.end);
    }
  }
  return span;
}

// Slices of the compute track, or else of all others, by their begin.
std::vector<TraceSlice> slices_of(const TrainingResult& result, bool compute) {
  std::vector<TraceSlice> slices;
  const RankTrace& trace = result.traces.front();
  for (std::size_t track = compute ? 0 : 1; track < (compute ? 1 : trace.tracks.size()); ++track) {
    for (const TraceSlice& slice : trace.tracks[track].slices) {
      if (!begins_with(slice.name, "split")) slices.push_back(slice);
    }
  }
  std::sort(slices.begin(), slices.end(),
            [](const TraceSlice& a, const TraceSlice& b) { return a.begin < b.begin; });
  return slices;
}

Span reductions(const TrainingResult& result, int stage) {
  return span_of(result, false, stage == 0 ? "all_reduce" : "reduce_scatter", "bucket");
}

}  // namespace

TEST_CASE("P21: without overlap DDP and ZeRO-1 reduce after backward, with overlap within it") {
  for (const int stage : {0, 1}) {
    TrainingCase c = traced_case(stage);
    const TrainingResult with = run(c);
    CHECK(reductions(with, stage).count == kOverlapLayers);
    CHECK(reductions(with, stage).first < span_of(with, true, "linear_backward").last);
    c.sync.overlap_reduce = false;
    const TrainingResult without = run(c);
    CHECK(reductions(without, stage).count == kOverlapLayers);
    CHECK(reductions(without, stage).first >= span_of(without, true, "linear_backward").last);
  }
}

TEST_CASE("P21: without overlap ZeRO-2 still reduces within backward, as its memory demands") {
  TrainingCase c = traced_case(2);
  c.sync.overlap_reduce = false;
  const TrainingResult result = run(c);
  CHECK(reductions(result, 2).count == 2 * kOverlapLayers);
  CHECK(reductions(result, 2).first < span_of(result, true, "linear_backward").last);
}

TEST_CASE("P21: ZeRO-1 and 2 gather a bucket while later ones are updated, and end with the last") {
  for (const int stage : {1, 2}) {
    TrainingCase c = traced_case(stage);
    c.world.cluster.device.launch_s = 1e-6;
    const TrainingResult with = run(c);
    const Span gathers = span_of(with, false, "all_gather", "bucket");
    CHECK(gathers.count == kOverlapLayers);
    CHECK(gathers.first < span_of(with, true, "optimizer_step").last);
    CHECK(gathers.last == with.ranks[1].end);
    c.sync.overlap_gather = false;
    CHECK(run(c).ranks[1].end > with.ranks[1].end);
  }
}

// From reductions that hide to reductions that queue behind each other: the step is the longest
// path through the recursion below, to the picosecond. Ranks are alike, so one of them tells all.
TEST_CASE("P28: a step of DDP is the max-plus recursion over its backward and its reductions") {
  for (const double latency : {1e-9, 1e-6, 1e-5, 1e-3}) {
    TrainingCase c = traced_case(0);
    c.training.num_microbatches = 1;
    c.world.cluster.intra_node.latency_s = latency;
    c.world.all_reduce_algorithm = Algorithm::ring;
    INFO("latency " << latency);
    const TrainingResult result = run(c);
    const Link& link = c.world.cluster.intra_node;
    const auto price = [&](std::int64_t part) {  // Bytes of the largest part of four.
      const double transfer_s = static_cast<double>(part) / link.bytes_per_s;
      return Time::from_seconds(2 * 3 * (link.latency_s + transfer_s));
    };

    // Computing: one thing after the other, but that updates wait for the last reduction.
    const std::vector<TraceSlice> computed = slices_of(result, true);
    Time now = computed.front().begin;
    std::vector<Time> ready;  // The loss, then the bucket of each layer from the last to the first.
    Time reduced;             // The end of the last reduction.
    for (const TraceSlice& slice : computed) {
      if (begins_with(slice.name, "optimizer_step") && reduced.picoseconds() == 0) {
        // All that communicates is posted by now; the stream takes one thing at a time.
        const std::vector<TraceSlice> communicated = slices_of(result, false);
        REQUIRE(communicated.size() == 1 + kOverlapLayers);
        REQUIRE(ready.size() == communicated.size());
        for (std::size_t i = 0; i < ready.size(); ++i) {
          reduced = max(ready[i], reduced) + price(i == 0 ? 8 : c.bucket_bytes / 4);
          CHECK(communicated[i].end == reduced);
        }
        now = max(now, reduced);
      }
      CHECK(slice.begin == now);
      now = slice.end;
      if (begins_with(slice.name, "squared_error") && ready.empty()) ready.push_back(now);
      if (begins_with(slice.name, "linear_backward_weight")) ready.push_back(now);
    }
    CHECK(result.ranks[1].end == now);
  }
}

TEST_CASE("P28: gradients are zeroed before they are added to, and this takes time") {
  for (int stage = 0; stage <= 3; ++stage) {
    TrainingCase c = traced_case(stage);
    const Span zeroing = span_of(run(c), true, "zero_gradients");
    // One buffer, once a step; or a buffer per chunk, in each microbatch.
    CHECK(zeroing.count == (stage < 2 ? 1 : 2 * kOverlapLayers));
    CHECK(zeroing.last > zeroing.first);
  }
}

TEST_CASE("P28: units are copied out of what was gathered, and gradients into what is reduced") {
  TrainingCase c = traced_case(3);
  const TrainingResult flat = run(c);
  CHECK(span_of(flat, true, "copy_weights").count == 0);
  c.sync.copies_units = true;
  const TrainingResult copied = run(c);
  // Each unit is gathered for forward and for backward of two microbatches, and reduced twice. What
  // backward needs first is still there.
  const Span gathers = span_of(copied, false, "all_gather");
  CHECK(gathers.count > 3 * kOverlapLayers);
  CHECK(span_of(copied, true, "copy_weights").count == gathers.count);
  CHECK(span_of(copied, true, "copy_gradients").count == 2 * kOverlapLayers);
  CHECK(span_of(copied, true, "zero_gradients").count == 0);
  const std::int64_t unit = 8 * (64 * 64 + 64);
  const auto comm = [](const TrainingResult& result) {
    return result.ranks[1].peaks.at(static_cast<std::size_t>(MemoryCategory::comm));
  };
  // The unit that is used, whose buffer goes with the copy, and the one ahead.
  CHECK(comm(copied) - comm(flat) == 2 * unit);
}

}  // namespace shardsim::test
