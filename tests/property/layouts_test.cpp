#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"
#include "sim/kernel/random.hpp"

#include "tests/sample.hpp"
#include "tests/strategies/training_case.hpp"

// P47: every layout of up to 32 ranks trains the model of one device, or is refused by name.
namespace shardsim::test {

namespace {

constexpr int kMostRanks = 32;

// The choices that a layout is run with beside its mesh. `family` and the like index the tables
// below.
enum Choice : std::size_t {
  family,
  zero_stage,
  replicas,
  order,
  sequence_parallel,
  dropout,
  norm,
  recompute,
  context,
  schedule,
  split
};
constexpr std::size_t kNumChoices = split + 1;
using Choices = std::array<int, kNumChoices>;
constexpr int kNone = -1;  // The layout has no such choice.

constexpr std::array kFamilies = {"gpt2", "llama"};
constexpr std::array kSchedules = {"1f1b", "gpipe", "zb_h1", "interleaved_1f1b", "looped_bfs"};
constexpr int kHeads = 4;
// Key and value heads of a llama that exchanges none go round with the layout's number. Those that
// are fewer than tensor-parallel ranks are copied.
constexpr std::array kGroups = {4, 2, 1};
// Positions of a sample that is cut: few, and divisible by three where cp is.
std::int64_t positions(const MeshShape& mesh) { return mesh.cp % 3 == 0 ? 12 : 8; }
enum Split : int { even, with_embedding, with_loss, with_both, uneven };

int chunks_of(int schedule) { return schedule >= 3 ? 2 : 1; }

// Values of a choice that the layout takes with those before it, {kNone} where it has no effect.
std::vector<int> values_of(Choice choice, const MeshShape& mesh, const Choices& before) {
  switch (choice) {
    case family:
    case dropout:
    case norm:
      return {0, 1};
    case zero_stage:
      return mesh.num_owners() > 1 ? std::vector{0, 1, 2, 3} : std::vector{kNone};
    case replicas:
      return mesh.data_size() % 2 == 0 ? std::vector{0, 1} : std::vector{kNone};
    case order:
      return mesh.num_owners() > 1 && mesh.tp > 1 ? std::vector{0, 1} : std::vector{kNone};
    case sequence_parallel:
      if (mesh.tp == 1) return {kNone};
      if (mesh.cp > 1 && positions(mesh) / mesh.cp % mesh.tp != 0) return {0};
      return {0, 1};
    case recompute:
      return {0, 1, 2};
    case context: {
      if (mesh.cp == 1) return {kNone};
      std::vector<int> fitting = {static_cast<int>(ContextAttention::ring),
                                  static_cast<int>(ContextAttention::all_gather)};
      const int heads = kHeads / mesh.tp;
      if (heads % mesh.cp == 0) fitting.push_back(static_cast<int>(ContextAttention::ulysses));
      if (heads % 2 == 0 && mesh.cp % 2 == 0 && mesh.cp > 2) {
        fitting.push_back(static_cast<int>(ContextAttention::two_level));
      }
      return fitting;
    }
    case schedule: {
      if (mesh.pp == 1) return {kNone};
      std::vector<int> fitting = {0, 1, 2};
      if (2 * mesh.pp > 8) return fitting;
      if (4 % mesh.pp == 0) fitting.push_back(3);  // Rounds of pp microbatches.
      fitting.push_back(4);
      return fitting;
    }
    default: {
      // Six layers: more stages need the ends counted, too.
      if (mesh.pp == 1) return {kNone};
      const int stages = mesh.pp * chunks_of(before[schedule]);
      if (stages == 8) return {with_both};
      if (stages == 7) return {with_embedding, with_loss, with_both};
      return {even, with_embedding, with_loss, with_both, uneven};
    }
  }
}

// (choice, value, other choice, its value)
using Pair = std::array<int, 4>;
using Pairs = std::set<Pair>;

void add_pairs(Pairs& pairs, const Choices& choices) {
  for (std::size_t a = 0; a < kNumChoices; ++a) {
    for (std::size_t b = a + 1; b < kNumChoices; ++b) {
      if (choices.at(a) == kNone || choices.at(b) == kNone) continue;
      pairs.insert({static_cast<int>(a), choices.at(a), static_cast<int>(b), choices.at(b)});
    }
  }
}

// Each choice is drawn by itself (two that go round together would meet in few combinations), of
// the values that have most to meet yet.
Choices drawn(const MeshShape& mesh, int number, const Pairs& met) {
  const RandomStream stream(1, "P47");
  Choices choices;
  choices.fill(kNone);
  for (std::size_t i = 0; i < kNumChoices; ++i) {
    std::vector<int> best;
    std::size_t most = 0;
    for (const int value : values_of(static_cast<Choice>(i), mesh, choices)) {
      choices.at(i) = value;
      Pairs pairs;
      add_pairs(pairs, choices);
      std::erase_if(pairs, [&met](const Pair& pair) { return met.count(pair) > 0; });
      if (pairs.size() > most) best.clear();
      most = std::max(most, pairs.size());
      if (pairs.size() == most) best.push_back(value);
    }
    const auto index = static_cast<std::uint64_t>(number) * kNumChoices + i;
    choices.at(i) = best[stream.below(index, best.size())];
  }
  return choices;
}

StageSplit split_of(int num_stages, int kind) {
  StageSplit split;
  split.account_for_embedding = kind == with_embedding || kind == with_both;
  split.account_for_loss = kind == with_loss || kind == with_both;
  if (kind != uneven) return split;
  split.layers = even_stage_layers(6, num_stages, split);
  const auto last = static_cast<std::size_t>(num_stages - 1);
  std::swap(split.layers[0], split.layers[last]);
  --split.layers[last];
  ++split.layers[last / 2];
  return split;
}

// Six layers and their ends for the pipeline, four heads for tensor parallelism.
TrainingCase case_of(const MeshShape& mesh, const Choices& choices, int number) {
  TrainingCase c;
  c.model = small_model(kFamilies.at(static_cast<std::size_t>(choices[family])));
  c.model.num_layers = 6;
  const auto form = static_cast<ContextAttention>(std::max(choices[context], 0));
  const bool exchanges =
      mesh.cp > 1 && (form == ContextAttention::ulysses || form == ContextAttention::two_level);
  const bool has_all = c.model.family == "gpt2" || exchanges;
  c.model.num_query_groups =
      has_all ? kHeads : kGroups.at(static_cast<std::size_t>(number) % kGroups.size());
  c.mesh = mesh;
  c.optimizer = "adamw";
  c.optimizer_options.epsilon = 1e-5;  // See scenarios/verify-gpt-zero2.json.
  c.training.steps = 2;
  c.training.num_microbatches = 4;
  c.training.ignore_fraction = 0.2;
  // Below the norms of these models, so that every step is clipped.
  c.training.max_grad_norm = choices[norm] == 1 ? 0.01 : 0.1;
  c.training.grad_norm_type = choices[norm] == 1 ? NormType::infinity : NormType::two;
  c.zero_stage = std::max(choices[zero_stage], 0);
  if (choices[replicas] == 1) {
    c.mesh.dp_replicate = 2;
    c.mesh.dp_shard = c.mesh.dp_shard / 2;
  }
  if (choices[order] == 1) c.mesh.order = RankOrder::dp_tp_pp;
  if (choices[sequence_parallel] == 1) {
    c.model.sequence_parallel = true;
    c.model.seq_len = 4;
  }
  if (mesh.cp > 1) {
    c.model.seq_len = c.model.max_position_embeddings = positions(mesh);
    c.model.context_attention = form;
    c.model.ulysses_degree = 2;
  }
  if (choices[dropout] == 1) c.model.hidden_dropout = 0.1;
  c.model.recompute = static_cast<Recompute>(choices[recompute]);
  if (choices[schedule] == kNone) return c;
  c.schedule = kSchedules.at(static_cast<std::size_t>(choices[schedule]));
  c.num_chunks = chunks_of(choices[schedule]);
  c.stage_split = split_of(c.mesh.pp * c.num_chunks, choices[split]);
  return c;
}

// All that can meet on a layout. Only the split depends on another choice.
void add_legal_pairs(Pairs& pairs, const MeshShape& mesh) {
  for (const int way : values_of(schedule, mesh, {})) {
    Choices choices{};
    choices[schedule] = way;
    std::array<std::vector<int>, kNumChoices> values;
    for (std::size_t i = 0; i < kNumChoices; ++i) {
      values.at(i) = values_of(static_cast<Choice>(i), mesh, choices);
    }
    values[schedule] = {way};
    for (std::size_t a = 0; a < kNumChoices; ++a) {
      for (std::size_t b = a + 1; b < kNumChoices; ++b) {
        for (const int of_a : values.at(a)) {
          for (const int of_b : values.at(b)) {
            Choices two;
            two.fill(kNone);
            two.at(a) = of_a;
            two.at(b) = of_b;
            add_pairs(pairs, two);
          }
        }
      }
    }
  }
}

bool cuts_heads(const MeshShape& mesh) { return kHeads % mesh.tp == 0; }
bool cuts_samples(const MeshShape& mesh) {
  return mesh.cp == 1 || positions(mesh) % (2 * mesh.cp) == 0;
}
bool is_legal_mesh(const MeshShape& mesh) {
  return cuts_heads(mesh) && cuts_samples(mesh) && mesh.pp <= 8;
}

std::vector<MeshShape> factorizations(int ranks) {
  std::vector<MeshShape> found;
  for (int tp = 1; tp <= ranks; ++tp) {
    for (int pp = 1; tp * pp <= ranks; ++pp) {
      for (int cp = 1; tp * pp * cp <= ranks; ++cp) {
        if (ranks % (tp * pp * cp) != 0) continue;
        found.push_back({.dp_shard = ranks / (tp * pp * cp), .tp = tp, .pp = pp, .cp = cp});
      }
    }
  }
  return found;
}

// References are shared by layouts that train the same model on the same samples.
const std::vector<StepRecord>& reference_of(const TrainingCase& c) {
  static std::map<std::string, std::vector<StepRecord>> known;
  const std::string key = c.model.family + std::to_string(c.model.num_query_groups) + "/" +
                          std::to_string(c.training.max_grad_norm) + "/" +
                          std::to_string(c.model.seq_len) + "/" +
                          std::to_string(c.model.hidden_dropout) + "/" +
                          std::to_string(c.mesh.data_size() * c.training.num_microbatches);
  const auto found = known.find(key);
  return found != known.end() ? found->second : known.emplace(key, train_alone(c)).first->second;
}

// By both families: what it says is the degree that does not fit, and into what.
void expect_refusal(const MeshShape& mesh, int family_index) {
  Choices plain{};
  plain[family] = family_index;
  plain[schedule] = mesh.pp == 1 ? kNone : 0;
  const TrainingCase c = case_of(mesh, plain, 0);
  INFO(describe(c));
  try {
    (void)run(c);
    FAIL("this layout should be refused");
  } catch (const UsageError& error) {
    const std::string text = error.what();
    INFO(error.code() << ": " << text);
    // Heads or groups, or the feed-forward width; positions; or layers.
    std::set<std::string> codes = {"E0711"};
    std::string degree = std::to_string(c.mesh.pp) + " pipeline stages";
    if (!cuts_heads(mesh)) {
      codes = {"E0631", "E0632", "E0633"};
      degree = "tensor parallelism of degree " + std::to_string(c.mesh.tp);
    } else if (!cuts_samples(mesh)) {
      codes = {"E0663"};
      degree = "context parallelism of degree " + std::to_string(c.mesh.cp);
    }
    CHECK(codes.count(error.code()) == 1);
    CHECK(text.find(degree) != std::string::npos);
  }
}

}  // namespace

TEST_CASE(
    "P47: every factorization of up to 32 ranks trains as one device, or is refused by name") {
  int run_count = 0;
  int refused_count = 0;
  int trained_count = 0;
  Pairs met;
  Pairs trained;  // Those of this run's sample.
  Pairs legal;
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    for (const MeshShape& mesh : factorizations(ranks)) {
      const int number = run_count + refused_count;
      if (!is_legal_mesh(mesh)) {
        ++refused_count;
        for (const int one : {0, 1}) expect_refusal(mesh, one);
        continue;
      }
      ++run_count;
      const Choices choices = drawn(mesh, number, met);
      add_pairs(met, choices);
      add_legal_pairs(legal, mesh);
      const TrainingCase c = case_of(mesh, choices, number);
      if (!in_sample("layout " + std::to_string(number), 6)) continue;
      INFO(describe(c));
      const TrainingResult result = run(c);
      ++trained_count;
      add_pairs(trained, choices);
      const std::vector<StepRecord>& reference = reference_of(c);
      for (std::size_t step = 0; step < reference.size(); ++step) {
        const WorstError worst = worst_error(merge(c, result, step), reference[step]);
        INFO("step " << step << ": " << worst.where);
        REQUIRE(worst.value <= kOracleBound);
      }
    }
  }
  std::cout << "P47: " << run_count << " layouts of (dp, tp, pp, cp) are legal, " << trained_count
            << " of them were run, " << refused_count << " are refused\n";
  CHECK(run_count == 300);
  CHECK(refused_count == 322);
  // A sample is about a sixth, and its layouts still have many pairs.
  CHECK(trained_count >= (long_run() ? run_count : run_count / 9));
  CHECK(trained.size() >= (long_run() ? legal.size() : legal.size() / 3));
  for (const Pair& pair : legal) {
    INFO("choice " << pair[0] << " = " << pair[1] << " with choice " << pair[2] << " = "
                   << pair[3]);
    CHECK(met.count(pair) == 1);
  }
  CHECK(met.size() == legal.size());
  CHECK(legal.size() == 487);
}

}  // namespace shardsim::test
