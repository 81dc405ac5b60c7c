#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/gradient_sync/compressors.hpp"
#include "strategies/gradient_sync/gradient_sync_wrapper.hpp"

#include "tests/property/check_property.hpp"
#include "tests/property/exact_case.hpp"
#include "tests/property/random_case.hpp"

// Gradients that are sent as their largest elements, or in 8 bits: who has what afterwards, what is
// sent and kept by closed formulas, and that nothing is lost.
namespace shardsim::test {

namespace {

GradientCompression draw_compression() {
  return {.compressor = *rc::gen::arbitrary<bool>() ? &largest_elements() : &int8_blocks(),
          .ratio = *rc::gen::element(0.01, 0.1, 0.5, 1.0),
          .block_size = *rc::gen::element<std::int64_t>(1, 7, 256),
          .error_feedback = *rc::gen::arbitrary<bool>()};
}

TrainingCase draw_compressed_case() {
  TrainingCase c = draw_case();
  c.zero_stage = 0;
  c.sync.compression = draw_compression();
  return c;
}

std::int64_t rounded_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// The part of each of `ranks` owners in a bucket of `numel`, by a walk over its blocks.
struct Part {
  std::int64_t elements = 0;
  std::int64_t blocks = 0;
  [[nodiscard]] std::int64_t bytes() const { return elements + 4 * blocks; }
};
std::vector<Part> parts_of(std::int64_t numel, std::int64_t block_size, std::int64_t ranks) {
  std::vector<Part> parts(static_cast<std::size_t>(ranks));
  const std::int64_t each = rounded_up(rounded_up(numel, block_size), ranks);
  for (std::int64_t block = 0; block * block_size < numel; ++block) {
    Part& part = parts.at(static_cast<std::size_t>(block / each));
    part.elements += std::min(block_size, numel - block * block_size);
    ++part.blocks;
  }
  return parts;
}

std::vector<std::int64_t> sizes_of_buckets(const TrainingCase& c) {
  std::vector<std::int64_t> sizes;
  const std::unique_ptr<Model> model = make_model(c.model);
  const FlatLayout layout = layout_of(c, *model);
  for (const FlatChunk& bucket : layout.chunks()) sizes.push_back(bucket.numel);
  return sizes;
}

// The bytes of gradients that a rank sends in a step.
std::int64_t gradient_bytes(const TrainingCase& c, std::size_t rank) {
  const GradientCompression& rule = c.sync.compression;
  std::int64_t bytes = 0;
  for (const std::int64_t numel : sizes_of_buckets(c)) {
    if (rule.compressor == &largest_elements()) {
      // Ratios here are multiples of 1 / 1000.
      const auto thousandths = static_cast<std::int64_t>(std::lround(rule.ratio * 1000.0));
      const std::int64_t kept = (thousandths * numel + 999) / 1000;
      bytes += (c.mesh.size() - 1) * kept * (size_of(c.sync.gradient_dtype) + 4);
      continue;
    }
    // To the owners all parts but one's own; then, around the ring, all but the next rank's.
    const std::vector<Part> parts = parts_of(numel, rule.block_size, c.mesh.size());
    for (const Part& part : parts) bytes += 2 * part.bytes();
    bytes -= parts[rank].bytes() + parts[(rank + 1) % parts.size()].bytes();
  }
  return bytes;
}

// Adds what all ranks keep of a step to `kept`.
class SyncOfErrors final : public GradientSyncWrapper {
 public:
  SyncOfErrors(GradientSync& inner, Values& kept) : GradientSyncWrapper(inner), kept_(kept) {}

  void apply_optimizer(double gradient_scale, std::int64_t step) override {
    inner_.visit(StateKind::rank_state, [this](const StatePiece& piece) {
      std::vector<double>& sum = kept_.at(static_cast<std::size_t>(piece.parameter));
      for (std::int64_t i = 0; i < piece.values.numel(); ++i) {
        sum.at(static_cast<std::size_t>(piece.first + i)) += piece.values.get(i);
      }
    });
    inner_.apply_optimizer(gradient_scale, step);
  }

 private:
  Values& kept_;
};

TrainingCase quantized_case(int ranks, std::int64_t block_size) {
  TrainingCase c;
  c.mesh = {1, ranks};
  c.sync.compression = {.compressor = &int8_blocks(), .block_size = block_size};
  c.world.has_data = false;
  return c;
}

}  // namespace

TEST_CASE("what is kept is the declared share, rounded up where it is no whole number") {
  const auto kept = [](double ratio, std::int64_t numel) {
    return num_kept({.ratio = ratio}, numel);
  };
  // Both products round above the whole number.
  CHECK(kept(0.07, 100) == 7);
  CHECK(kept(0.55, 100) == 55);
  CHECK(kept(0.1, 101) == 11);
  CHECK(kept(0.001, 5) == 1);
  CHECK(kept(1.0, 7) == 7);
  CHECK(kept(0.5, 0) == 0);
}

TEST_CASE("to send the largest of all elements is synchronous training, in every bit") {
  check_property(60, [] {
    TrainingCase c = draw_exact_case();
    const TrainingCase synchronous = c;
    c.sync.compression = {.compressor = &largest_elements(), .ratio = 1.0};
    expect_equal_weights(c, synchronous);
  });
}

TEST_CASE("all ranks of a compressed training hold the same bits after every step") {
  check_property(60, [] {
    const TrainingCase c = draw_compressed_case();
    RC_LOG() << describe(c) << "\n";
    const TrainingResult result = run(c);
    for (std::size_t step = 0; step < static_cast<std::size_t>(c.training.steps); ++step) {
      RC_ASSERT(!merge(c, result, step).values.empty());
    }
  });
}

TEST_CASE("what is compressed is sent by the formula, whatever the values are") {
  check_property(100, [] {
    TrainingCase c = draw_compressed_case();
    c.sync.gradient_dtype = *rc::gen::element(DType::fp64, DType::bf16);
    c = without_data(c);
    RC_LOG() << describe(c) << "\n";
    const TrainingResult result = run(c);
    for (std::size_t rank = 0; rank < result.sent_by_rank.size(); ++rank) {
      RC_ASSERT(result.sent_by_rank[rank] == c.training.steps * gradient_bytes(c, rank));
    }
    for (const auto& [group, counters] : result.traffic) RC_ASSERT(counters.padding_sent == 0);
  });
}

TEST_CASE("int8 sends 2 (D-1)/D of a byte per element and 4 per scale, for any number of ranks D") {
  for (const int ranks : {1, 2, 3, 4, 8, 16}) {
    for (const std::int64_t block_size : {1, 3, 16, 256}) {
      for (const std::int64_t bucket_bytes : {1, 400, 100000}) {
        TrainingCase c = quantized_case(ranks, block_size);
        c.model.ffn_hidden_size = 3;
        c.bucket_bytes = c.first_bucket_bytes = bucket_bytes;
        std::int64_t bytes = 0;
        std::int64_t smallest = 1 << 20;
        for (const std::int64_t numel : sizes_of_buckets(c)) {
          bytes += numel + 4 * rounded_up(numel, block_size);
          smallest = std::min(smallest, numel);
        }
        if (bucket_bytes == 1) REQUIRE(smallest < 8);  // Fewer elements than ranks.
        INFO(describe(c));
        std::int64_t sent = 0;
        for (const std::int64_t of_rank : run(c).sent_by_rank) sent += of_rank;
        CHECK(sent == c.training.steps * 2 * (ranks - 1) * bytes);  // D ranks: D times that.
      }
    }
  }
}

TEST_CASE("where parts are equal every rank sends the same, about a quarter of fp32's all_reduce") {
  for (const int ranks : {2, 4, 8, 16}) {
    TrainingCase c = quantized_case(ranks, 64);
    c.model.hidden_size = c.model.ffn_hidden_size = c.model.vocab_size = 1024;
    c.bucket_bytes = c.first_bucket_bytes = 1 << 30;
    c.sync.gradient_dtype = DType::fp32;
    const std::vector<std::int64_t> sizes = sizes_of_buckets(c);
    REQUIRE(sizes.size() == 1);
    const std::int64_t numel = sizes.front();
    TrainingCase whole = c;
    whole.sync.compression = {};
    const TrainingResult all_reduced = run(whole);
    const TrainingResult result = run(c);
    INFO(numel << " elements, " << ranks << " ranks");
    REQUIRE(numel % (64 * ranks) == 0);
    for (const std::int64_t sent : result.sent_by_rank) {
      CHECK(sent * ranks == c.training.steps * 2 * (ranks - 1) * (numel + 4 * numel / 64));
      CHECK(sent * 64 == all_reduced.sent_by_rank.front() * 17);  // (1 + 4 / 64) / 4.
    }
  }
}

TEST_CASE("int8 keeps a whole worker error, and the server error of what a rank adds up") {
  for (const int ranks : {1, 2, 3, 8}) {
    for (const std::int64_t block_size : {1, 16, 256}) {
      TrainingCase c = quantized_case(ranks, block_size);
      c.sync.overlap_reduce = false;
      const TrainingResult result = run(c);
      c.sync.compression.error_feedback = false;
      const TrainingResult without = run(c);
      for (std::size_t rank = 0; rank < result.ranks.size(); ++rank) {
        std::int64_t errors = 0;
        std::int64_t parcels = 2 * kDouble;  // Sum of losses and number of targets.
        for (const std::int64_t numel : sizes_of_buckets(c)) {
          const Part own = parts_of(numel, block_size, ranks)[rank];
          errors += numel + own.elements;
          parcels += numel + 4 * rounded_up(numel, block_size);
          // All ranks' parcels of the own part come on top; a lone rank's is the one it sent.
          if (ranks > 1) parcels += ranks * own.bytes();
        }
        INFO(describe(c) << ", rank " << rank);
        CHECK(of(result.ranks[rank].persistent, MemoryCategory::optimizer) == kDouble * errors);
        CHECK(of(without.ranks[rank].persistent, MemoryCategory::optimizer) == 0);
        CHECK(of(result.ranks[rank].peaks, MemoryCategory::comm) == parcels);
      }
    }
  }
}

TEST_CASE("what int8 applies and what it keeps are together all gradients that there were") {
  int num_kept = 0;
  check_property(40, [&] {
    TrainingCase c = draw_case();
    c.zero_stage = 0;
    c.training.steps = 1;
    RC_LOG() << describe(c) << "\n";
    const Values expected = run(c).ranks[0].steps[0].values.at("gradient");
    Values kept = expected;
    for (std::vector<double>& values : kept) values.assign(values.size(), 0.0);
    c.sync.compression = {.compressor = &int8_blocks(),
                          .block_size = *rc::gen::element<std::int64_t>(1, 7, 256)};
    c.wrap_sync = [&kept](GradientSync& sync, Runtime&, int) {
      return std::make_unique<SyncOfErrors>(sync, kept);
    };
    const Values applied = run(c).ranks[0].steps[0].values.at("gradient");
    for (std::size_t i = 0; i < applied.size(); ++i) {
      for (std::size_t j = 0; j < applied[i].size(); ++j) {
        if (kept[i][j] != 0.0) ++num_kept;
        // Sums of 33 fp64 numbers at most, none of which is above 100.
        RC_ASSERT(std::fabs(applied[i][j] + kept[i][j] - expected[i][j]) <= 33 * 100 * 1e-15);
      }
    }
  });
  CHECK(num_kept > 1000);
}

TEST_CASE("top-k keeps one residual of all") {
  TrainingCase c;
  c.mesh = {1, 2};
  c.sync.compression.compressor = &largest_elements();
  const std::int64_t weights = kDouble * num_parameters(*make_model(c.model));
  const auto kept = [](const TrainingCase& of_case) {
    return of(run(without_data(of_case)).ranks.front().persistent, MemoryCategory::optimizer);
  };
  CHECK(kept(c) == weights);
  c.sync.compression.error_feedback = false;
  CHECK(kept(c) == 0);
}

TEST_CASE("plans of compressed trainings are the runs: same trace hash with and without numbers") {
  check_property(60, [] {
    const TrainingCase c = draw_compressed_case();
    RC_LOG() << describe(c) << "\n";
    RC_ASSERT(run(c).trace_hash == run(without_data(c)).trace_hash);
  });
}

}  // namespace shardsim::test
