#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/property/check_property.hpp"
#include "tests/property/random_case.hpp"

// Any strategy at any layout trains the same model as one device. In fp64 honest rounding is about
// 1e-13, so the bound 1e-9 still sees one wrong element.
namespace shardsim::test {

namespace {

void expect_equal_to_one_device(const TrainingCase& c) {
  RC_LOG() << describe(c) << "\n";
  const TrainingResult result = run(c);
  const std::vector<StepRecord> reference = train_alone(c);
  RC_ASSERT(reference.size() == static_cast<std::size_t>(c.training.steps));
  for (std::size_t step = 0; step < reference.size(); ++step) {
    const WorstError worst = worst_error(merge(c, result, step), reference[step]);
    RC_LOG() << "step " << step << ": " << worst.value << " at " << worst.where << "\n";
    RC_ASSERT(worst.value <= kOracleBound);
  }
}

// Shards reduce within their group first, then over replicas, so stage 0 adds in the same order
// only where one of the axes has one rank. Within a rank, microbatches add up before the sum over
// ranks, unless each is reduced on its own.
std::vector<TrainingCase> cases_that_add_in_the_same_order(TrainingCase c) {
  std::vector<TrainingCase> cases;
  const bool one_axis = c.mesh.dp_shard == 1 || c.mesh.dp_replicate == 1;
  c.sync.reduce_every_microbatch = false;
  for (int stage = one_axis ? 0 : 1; stage <= 3; ++stage) {
    c.zero_stage = stage;
    cases.push_back(c);
  }
  return cases;
}

void expect_equal_bits(const std::vector<TrainingCase>& cases) {
  const TrainingResult first = run(cases.front());
  for (const TrainingCase& c : cases) {
    RC_LOG() << describe(c) << "\n";
    const TrainingResult result = run(c);
    for (std::size_t step = 0; step < static_cast<std::size_t>(c.training.steps); ++step) {
      const std::string difference =
          first_difference(merge(cases.front(), first, step), merge(c, result, step));
      RC_LOG() << "step " << step << ": " << difference << "\n";
      RC_ASSERT(difference.empty());
    }
  }
}

}  // namespace

TEST_CASE("P15: any stage, mesh, optimizer and model trains as one device on the whole batch") {
  check_property(300, [] { expect_equal_to_one_device(draw_case()); });
}

TEST_CASE("P15: 20 steps of Adam at its usual epsilon stay within the bound on 13 and 16 ranks") {
  const std::pair<const char*, MeshShape> layouts[] = {
      {"adam", {13, 1}}, {"adamw", {16, 1}}, {"adam", {4, 4}}};
  for (const char* name : {"mlp", "llama", "gpt2"}) {
    for (const auto& [optimizer, mesh] : layouts) {
      for (int stage = 0; stage <= 3; ++stage) {
        TrainingCase c;
        c.name = name;
        c.model = small_model(name);
        c.zero_stage = stage;
        c.mesh = mesh;
        c.optimizer = optimizer;
        REQUIRE(c.optimizer_options.epsilon == 1e-8);
        if (blows_up_rounding(c)) c.optimizer_options.weight_decay = 0.0;
        c.training.steps = 20;
        const TrainingResult result = run(c);
        const WorstError worst = worst_error(merge(c, result, 19), train_alone(c).at(19));
        INFO(describe(c) << ": " << worst.value << " at " << worst.where);
        CHECK(worst.value <= kOracleBound);
      }
    }
  }
}

TEST_CASE("P15: a mesh whose ranks outnumber the elements of a unit trains as one device") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (const MeshShape& mesh : {MeshShape{9, 1}, MeshShape{7, 1}, MeshShape{4, 2}}) {
      TrainingCase c;
      c.model.hidden_size = c.model.ffn_hidden_size = c.model.vocab_size = 1;
      c.zero_stage = stage;
      c.mesh = mesh;
      c.optimizer = "adam";
      c.training.steps = 3;
      const TrainingResult result = run(c);
      const std::vector<StepRecord> reference = train_alone(c);
      for (std::size_t step = 0; step < reference.size(); ++step) {
        INFO(describe(c));
        CHECK(worst_error(merge(c, result, step), reference[step]).value <= kOracleBound);
      }
    }
  }
}

TEST_CASE("P16: stages that add in the same order agree in every bit") {
  check_property(80, [] { expect_equal_bits(cases_that_add_in_the_same_order(draw_case())); });
}

TEST_CASE("P16: ZeRO-2 and FSDP agree in every bit when each microbatch is reduced") {
  check_property(80, [] {
    TrainingCase c = draw_case();
    c.sync.reduce_every_microbatch = true;
    c.zero_stage = 2;
    std::vector<TrainingCase> cases = {c};
    c.zero_stage = 3;
    cases.push_back(c);
    expect_equal_bits(cases);
  });
}

// merge() compares all ranks that hold an element, so it is the test; this one names it.
TEST_CASE("P17: replicas hold the same bits after every step, clipped or not") {
  check_property(100, [] {
    TrainingCase c = draw_case();
    c.training.max_grad_norm = *rc::gen::element(0.0, 0.05, 1.0);
    RC_LOG() << describe(c) << "\n";
    const TrainingResult result = run(c);
    for (std::size_t step = 0; step < static_cast<std::size_t>(c.training.steps); ++step) {
      RC_ASSERT(!merge(c, result, step).values.empty());
    }
  });
}

// Weights are whole numbers, the divisor and the learning rate powers of two: each step of one
// hidden layer about triples the bits of a weight, so two steps stay far below 53.
TEST_CASE("P15: on whole numbers every strategy equals one device in every bit") {
  check_property(200, [] {
    TrainingCase c = draw_case();
    c.name = "integer mlp";
    c.model = small_model("integer mlp");
    c.model.num_layers = 1;
    c.model.hidden_size = *rc::gen::inRange<std::int64_t>(1, 6);
    c.mesh.dp_shard = *rc::gen::element(1, 2, 4, 8);
    c.mesh.dp_replicate = c.mesh.dp_shard == 8 ? 1 : *rc::gen::element(1, 2);
    c.optimizer = "sgd";
    c.optimizer_options = {.learning_rate = 0.0625, .weight_decay = 0.0};
    c.training.steps = 2;
    c.training.num_microbatches = *rc::gen::element<std::int64_t>(1, 2);
    c.training.micro_batch_size = *rc::gen::element<std::int64_t>(1, 2);
    c.training.ignore_fraction = 0.0;
    RC_LOG() << describe(c) << "\n";
    const TrainingResult result = run(c);
    const std::vector<StepRecord> reference = train_alone(c);
    for (std::size_t step = 0; step < reference.size(); ++step) {
      const std::string difference = first_difference(merge(c, result, step), reference[step]);
      RC_LOG() << "step " << step << ": " << difference << "\n";
      RC_ASSERT(difference.empty());
    }
  });
}

}  // namespace shardsim::test
