#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "tests/strategies/training_case.hpp"

// P47: every layout of up to 32 ranks trains the model of one device, or is refused by name.
namespace shardsim::test {

namespace {

constexpr double kBound = 1e-9;  // As in equivalence_test.cpp.
constexpr int kMostRanks = 32;

// Six layers and their ends for the pipeline, four heads for tensor parallelism.
TrainingCase small_case(const MeshShape& mesh) {
  TrainingCase c;
  c.model = small_model(mesh.size() % 2 == 0 ? "gpt2" : "llama");
  c.model.num_layers = 6;
  c.model.num_query_groups = 4;
  c.mesh = mesh;
  c.optimizer = "adamw";
  c.optimizer_options.epsilon = 1e-5;  // See scenarios/verify-gpt-zero2.json.
  c.training.steps = 2;
  c.training.num_microbatches = 4;
  c.training.ignore_fraction = 0.2;
  c.training.max_grad_norm = 0.1;
  return c;
}

// Even splits and uneven ones in turn; more stages than layers need the ends counted, too.
StageSplit varied_split(int num_stages, int number) {
  StageSplit split;
  split.account_for_embedding = num_stages >= 8 || number % 4 == 1;
  split.account_for_loss = num_stages >= 7 || number % 4 == 2;
  if (num_stages > 6 || number % 4 != 3) return split;
  split.layers = even_stage_layers(6, num_stages, split);
  const auto last = static_cast<std::size_t>(num_stages - 1);
  std::swap(split.layers[0], split.layers[last]);
  --split.layers[last];
  ++split.layers[last / 2];
  return split;
}

// What else a layout is run with goes round, so that choices meet in all combinations.
TrainingCase varied(TrainingCase c, int number) {
  c.zero_stage = number % 4;
  if (c.mesh.data_size() % 2 == 0 && number % 3 == 0) {
    c.mesh.dp_replicate = 2;
    c.mesh.dp_shard = c.mesh.dp_shard / 2;
  }
  if (number % 5 == 0) c.mesh.order = RankOrder::dp_tp_pp;
  if (c.mesh.tp > 1 && number % 2 == 0) {
    c.model.sequence_parallel = true;
    c.model.seq_len = 4;
  }
  if (number % 7 < 2) c.model.hidden_dropout = 0.1;
  c.model.recompute = static_cast<Recompute>(number % 3);
  if (c.mesh.pp == 1) return c;
  const char* const schedules[] = {"1f1b", "gpipe", "zb_h1", "interleaved_1f1b", "looped_bfs"};
  c.schedule = schedules[number % 5];
  const bool has_chunks = number % 5 >= 3;
  if (has_chunks) c.num_chunks = 2;
  // Not every schedule takes every shape: then the plain one.
  const bool fits = c.mesh.pp * c.num_chunks <= 8 && (c.schedule != "interleaved_1f1b" ||
                                                      c.training.num_microbatches % c.mesh.pp == 0);
  if (!fits) {
    c.schedule = "1f1b";
    c.num_chunks = 1;
  }
  c.stage_split = varied_split(c.mesh.pp * c.num_chunks, number);
  return c;
}

bool is_legal(const MeshShape& mesh) { return 4 % mesh.tp == 0 && mesh.pp <= 8; }

std::vector<MeshShape> factorizations(int ranks) {
  std::vector<MeshShape> found;
  for (int tp = 1; tp <= ranks; ++tp) {
    for (int pp = 1; tp * pp <= ranks; ++pp) {
      if (ranks % (tp * pp) != 0) continue;
      found.push_back({.dp_shard = ranks / (tp * pp), .tp = tp, .pp = pp});
    }
  }
  return found;
}

// References are shared by layouts that train the same model on the same samples.
const std::vector<StepRecord>& reference_of(const TrainingCase& c) {
  static std::map<std::string, std::vector<StepRecord>> known;
  const std::string key = c.model.family + std::to_string(c.model.seq_len) + "/" +
                          std::to_string(c.model.hidden_dropout) + "/" +
                          std::to_string(c.mesh.data_size() * c.training.num_microbatches);
  const auto found = known.find(key);
  return found != known.end() ? found->second : known.emplace(key, train_alone(c)).first->second;
}

void expect_refusal(const TrainingCase& c) {
  try {
    (void)run(c);
    FAIL("this layout should be refused");
  } catch (const UsageError& error) {
    const std::string text = error.what();
    // It says which number does not fit which.
    const int wrong = 4 % c.mesh.tp != 0 ? c.mesh.tp : c.mesh.pp;
    CHECK(text.find(std::to_string(wrong)) != std::string::npos);
  }
}

}  // namespace

TEST_CASE(
    "P47: every factorization of up to 32 ranks trains as one device, or is refused by name") {
  int run_count = 0;
  int refused_count = 0;
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    for (const MeshShape& mesh : factorizations(ranks)) {
      const TrainingCase c = varied(small_case(mesh), run_count + refused_count);
      INFO(describe(c));
      if (!is_legal(mesh)) {
        ++refused_count;
        expect_refusal(c);
        continue;
      }
      ++run_count;
      const TrainingResult result = run(c);
      const std::vector<StepRecord>& reference = reference_of(c);
      for (std::size_t step = 0; step < reference.size(); ++step) {
        const WorstError worst = worst_error(merge(c, result, step), reference[step]);
        INFO("step " << step << ": " << worst.where);
        REQUIRE(worst.value <= kBound);
      }
    }
  }
  std::cout << "P47: " << run_count << " layouts of (dp, tp, pp) were run, " << refused_count
            << " refused\n";
  CHECK(run_count == 147);
  CHECK(refused_count == 153);
}

}  // namespace shardsim::test
