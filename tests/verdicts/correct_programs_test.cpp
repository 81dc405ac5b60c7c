#include <cstdio>
#include <map>
#include <string>
#include <utility>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/harness/training_program.hpp"
#include "tests/property/check_property.hpp"
#include "tests/verdicts/summing_program.hpp"

// The harness' judge: a program that is right is not too coarse, whatever its sums come to.
namespace shardsim::test {

namespace {

// With seed 20261121 and SHARDSIM_LONG=1 the judge of commit e647d66 was wrong about 8,488 of
// 100,000 programs that sum, and about 29 of 6,000 trainings.

// Verdicts of the harness on correct programs, by precision.
class ProgramTally {
 public:
  explicit ProgramTally(std::string title) : title_(std::move(title)) {}

  void add(DType precision, const CheckReport& report, const std::string& text) {
    const std::string verdict = report.passed() ? "right" : report.failure->code;
    ++counts_[{std::string(name_of(precision)), verdict}];
    if (!report.passed()) RC_FAIL(text + "\n" + report.to_text());
  }
  void print() const {
    std::string line = fmt::format("figures: {}, seed {}:", title_, property_seed());
    for (const auto& [of, count] : counts_) {
      line += fmt::format(" {} {} {}", of.first, count, of.second);
    }
    std::puts(line.c_str());
  }

 private:
  std::string title_;
  std::map<std::pair<std::string, std::string>, int> counts_;
};

// A strategy of ours on as many ranks as `mesh` has.
struct DrawnTraining {
  TrainingStrategy strategy;
  CheckOptions options;
  std::string text;
};

MeshShape draw_layout() {
  return *rc::gen::element(MeshShape{.dp_shard = 2}, MeshShape{.dp_shard = 3},
                           MeshShape{.dp_shard = 4}, MeshShape{.dp_shard = 2, .dp_replicate = 2},
                           MeshShape{.dp_shard = 6}, MeshShape{.dp_shard = 2, .pp = 2},
                           MeshShape{.dp_shard = 1, .pp = 4});
}

DrawnTraining draw_training_program() {
  DrawnTraining drawn;
  const MeshShape mesh = draw_layout();
  TrainingStrategy& strategy = drawn.strategy;
  strategy.zero_stage = *rc::gen::element(0, 1, 2, 3);
  strategy.optimizer =
      *rc::gen::element<std::string>("sgd", "momentum", "adam", "adamw", "rmsprop");
  strategy.max_grad_norm = *rc::gen::element(0.0, 0.05);
  strategy.schedule = *rc::gen::element<std::string>("1f1b", "gpipe");
  strategy.model.num_layers = 4;
  CheckOptions& options = drawn.options;
  options.name = "training";
  options.layouts = {mesh};
  options.seeds = {*rc::gen::resize(rc::kNominalSize, rc::gen::inRange<std::uint64_t>(1, 100000))};
  options.precision = *rc::gen::element(DType::fp32, DType::bf16, DType::fp16);
  options.explore.mode = ExploreMode::none;
  drawn.text = fmt::format("{} on {} x {} data-parallel ranks and {} stages, ZeRO-{}, {}, seed {}",
                           name_of(options.precision), mesh.dp_shard, mesh.dp_replicate, mesh.pp,
                           strategy.zero_stage, strategy.optimizer, options.seeds.front());
  return drawn;
}

}  // namespace

TEST_CASE("verdicts: no correct program that sums is said to be wrong, or too coarse") {
  ProgramTally tally("verdicts on programs that sum");
  check_property(5000, [&] {
    const SummingProgram program = draw_summing_program();
    tally.add(program.precision, check_summing(program), program.describe());
  });
  tally.print();
}

TEST_CASE("verdicts: no correct training program is said to be wrong, or too coarse") {
  ProgramTally tally("verdicts on training programs");
  check_property(300, [&] {
    const DrawnTraining drawn = draw_training_program();
    const CheckReport report = check(training_program(drawn.strategy), drawn.options);
    tally.add(drawn.options.precision, report, drawn.text);
  });
  tally.print();
}

}  // namespace shardsim::test
