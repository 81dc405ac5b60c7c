#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "tests/property/check_property.hpp"
#include "tests/property/random_case.hpp"

// Choices that must not change a run's values, or its trace.
namespace shardsim::test {

namespace {

void expect_equal_bits(const TrainingCase& a, const TrainingCase& b) {
  RC_LOG() << describe(a) << "\n" << describe(b) << "\n";
  const TrainingResult first = run(a);
  const TrainingResult second = run(b);
  for (std::size_t step = 0; step < static_cast<std::size_t>(a.training.steps); ++step) {
    const std::string difference = first_difference(merge(a, first, step), merge(b, second, step));
    RC_LOG() << "step " << step << ": " << difference << "\n";
    RC_ASSERT(difference.empty());
  }
}

void expect_clipped_as_one_device(TrainingCase c) {
  c.training.steps = *rc::gen::inRange<std::int64_t>(1, 3);
  const bool is_two = *rc::gen::arbitrary<bool>();
  c.training.grad_norm_type = is_two ? NormType::two : NormType::infinity;
  // The threshold is a multiple of the norm of the first step.
  double squares = 0.0;
  double most = 0.0;
  const std::vector<StepRecord> unclipped = train_alone(c);
  for (const std::vector<double>& tensor : unclipped.front().values.at("gradient")) {
    for (const double value : tensor) {
      squares += value * value;
      most = std::max(most, std::fabs(value));
    }
  }
  RC_PRE(squares > 0.0);
  const double norm = is_two ? std::sqrt(squares) : most;
  c.training.max_grad_norm = norm * *rc::gen::element(0.1, 0.999, 1.0, 1.001, 10.0);
  RC_LOG() << describe(c) << "\n";
  const TrainingResult result = run(c);
  const std::vector<StepRecord> reference = train_alone(c);
  for (std::size_t step = 0; step < reference.size(); ++step) {
    const WorstError worst = worst_error(merge(c, result, step), reference[step]);
    RC_LOG() << "step " << step << ": " << worst.value << " at " << worst.where << "\n";
    RC_ASSERT(worst.value <= kOracleBound);
  }
}

}  // namespace

TEST_CASE("P21: buckets, prefetch, overlap, reductions in flight and interleaving change no bit") {
  check_property(150, [] {
    const TrainingCase a = draw_case();
    TrainingCase b = a;
    draw_schedule(b);
    expect_equal_bits(a, b);
  });
}

TEST_CASE("P24: how a global batch is cut into ranks and microbatches does not matter") {
  check_property(100, [] {
    TrainingCase a = draw_case();
    a.training.steps = *rc::gen::inRange<std::int64_t>(1, 3);
    a.training.ignore_fraction = 0.4;  // Ranks and microbatches count different numbers of tokens.
    TrainingCase b = a;
    const std::int64_t samples = 12;
    for (TrainingCase* c : {&a, &b}) {
      c->mesh.dp_shard = *rc::gen::element(1, 2, 3);
      c->mesh.dp_replicate = *rc::gen::element(1, 2);
      const std::int64_t share = samples / c->mesh.size();
      c->training.num_microbatches = *rc::gen::suchThat(
          rc::gen::inRange<std::int64_t>(1, share + 1),
          [share](std::int64_t microbatches) { return share % microbatches == 0; });
      c->training.micro_batch_size = share / c->training.num_microbatches;
      c->zero_stage = *rc::gen::inRange(0, 4);
    }
    RC_LOG() << describe(a) << "\n" << describe(b) << "\n";
    const TrainingResult first = run(a);
    const TrainingResult second = run(b);
    for (std::size_t step = 0; step < static_cast<std::size_t>(a.training.steps); ++step) {
      const WorstError worst = worst_error(merge(a, first, step), merge(b, second, step));
      RC_LOG() << "step " << step << ": " << worst.value << " at " << worst.where << "\n";
      RC_ASSERT(worst.value <= kOracleBound);
    }
  });
}

TEST_CASE("P26: a clipped step equals one device's, below, at and above the threshold") {
  check_property(100, [] { expect_clipped_as_one_device(draw_case()); });
  check_property(40, [] { expect_clipped_as_one_device(draw_cut_case()); });
}

TEST_CASE("P26: clipping changes the step above the threshold, and only there") {
  for (const auto& [stage, type] :
       {std::pair(0, NormType::two), std::pair(1, NormType::two), std::pair(2, NormType::two),
        std::pair(3, NormType::two), std::pair(0, NormType::infinity),
        std::pair(3, NormType::infinity)}) {
    TrainingCase c;
    c.zero_stage = stage;
    c.mesh = {.dp_shard = 3, .dp_replicate = 2};
    c.training.grad_norm_type = type;
    const StepRecord unclipped = merge(c, run(c), 0);
    c.training.max_grad_norm = 1e6;
    CHECK(first_difference(merge(c, run(c), 0), unclipped).empty());
    c.training.max_grad_norm = 1e-3;
    const StepRecord clipped = merge(c, run(c), 0);
    CHECK(clipped.values.at("gradient") == unclipped.values.at("gradient"));
    CHECK(clipped.values.at("parameter") != unclipped.values.at("parameter"));
  }
}

TEST_CASE("L3: a run without data leaves the trace hash of a run with data") {
  check_property(100, [] {
    TrainingCase c = draw_case();
    c.training.max_grad_norm = *rc::gen::element(0.0, 1.0);
    RC_LOG() << describe(c) << "\n";
    const std::uint64_t with_data = run(c).trace_hash;
    c.world.has_data = false;
    RC_ASSERT(run(c).trace_hash == with_data);
  });
}

TEST_CASE("L5: two runs, and any interleaving of the ranks, leave equal hashes and bits") {
  check_property(60, [] {
    const TrainingCase a = draw_case();
    TrainingCase b = a;
    const std::uint64_t hash = run(a).trace_hash;
    RC_ASSERT(run(a).trace_hash == hash);
    b.world.interleaving_seed = *rc::gen::inRange<std::uint64_t>(1, 1000);
    RC_ASSERT(run(b).trace_hash == hash);
    b.world.has_data = false;
    RC_ASSERT(run(b).trace_hash == hash);
    b = a;
    b.world.interleaving_seed = 77;
    expect_equal_bits(a, b);
  });
}

TEST_CASE("L3: the trace hash sees a change of schedule") {
  TrainingCase c;
  c.zero_stage = 2;
  c.mesh.dp_shard = 4;
  const std::uint64_t hash = run(c).trace_hash;
  c.bucket_bytes = 5000;
  CHECK(run(c).trace_hash != hash);
}

TEST_CASE("P27: optimizers that look at whole tensors, and unknown ones, are refused by name") {
  for (const char* name : {"lamb", "lars", "adafactor", "muon", "", "Adam"}) {
    TrainingCase c;
    c.optimizer = name;
    CHECK_THROWS_AS(run(c), UsageError);
  }
}

}  // namespace shardsim::test
