#include <span>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/checkpoint/memory_file_system.hpp"
#include "tests/property/check_property.hpp"
#include "tests/sharded_optimizer/fixture.hpp"

// P49 where axes meet: pipelines of several chunks, tensor and sequence parallelism, all ZeRO
// stages and replicas, with tied and untied weights. A training of one half at one layout and the
// other half at another equals one device.
namespace shardsim::test {

namespace {

constexpr int kHalf = 2;  // Steps.

struct Axes {
  int pp = 1;
  int tp = 1;
  int dp = 1;
  int dp_replicate = 1;
  int zero_stage = 0;
  int cp = 1;
};

struct Leg {
  const char* name;
  Axes axes;
  const char* schedule = "1f1b";
  int num_chunks = 1;
  bool sequence_parallel = false;
  std::int64_t minimum_group = 0;  // Elements of a bucket: other cuts in each.
};

const std::vector<Leg> kLegs = {
    {"one device", {}},
    {"zero3 tp pp sp", {.pp = 2, .tp = 2, .dp = 2, .zero_stage = 3}, "1f1b", 1, true, 1024},
    {"hsdp tp pp",
     {.pp = 2, .tp = 2, .dp = 4, .dp_replicate = 2, .zero_stage = 3},
     "zb_h1",
     1,
     false,
     100},
    {"zero2 tp sp interleaved",
     {.pp = 2, .tp = 2, .dp = 2, .zero_stage = 2},
     "interleaved_1f1b",
     2,
     true},
    {"hsdp looped",
     {.pp = 2, .dp = 4, .dp_replicate = 2, .zero_stage = 3},
     "looped_bfs",
     2,
     false,
     1024},
    {"zero bubble tp4 pp3 sp", {.pp = 3, .tp = 4, .zero_stage = 1}, "zb_h1", 1, true, 1024},
    {"fsdp of samples cut", {.dp = 2, .zero_stage = 3, .cp = 2}, "1f1b", 1, false, 1024},
    {"zero1 tp pp cp sp", {.pp = 2, .tp = 2, .dp = 2, .zero_stage = 1, .cp = 2}, "1f1b", 1, true},
    {"gpipe pp6 zero1", {.pp = 6, .dp = 2, .zero_stage = 1}, "gpipe"},
};

Setup leg_setup(const Leg& leg, const std::string& model) {
  const Axes& axes = leg.axes;
  Setup setup = setup_of("hybrid_sharded", axes.pp * axes.tp * axes.cp * axes.dp, model);
  setup.choice = hybrid_sharded(axes.pp, axes.tp, axes.dp, axes.zero_stage);
  setup.choice.dp_replicate = axes.dp_replicate;
  setup.choice.cp = axes.cp;
  setup.schedule = leg.schedule;
  setup.num_chunks = leg.num_chunks;
  setup.configuration.minimum_parameter_group_size = leg.minimum_group;
  // A key's bias has a gradient of rounding noise only, which Adam would blow up.
  setup.optimizer_options.epsilon = 1e-4;
  // The same global batch; what is dropped, left out and clipped must go on from where it was.
  setup.training.num_microbatches = 8 / axes.dp;
  setup.training.ignore_fraction = 0.2;
  setup.training.max_grad_norm = 0.2;
  setup.change_model = [sequence_parallel = leg.sequence_parallel](ModelOptions& options) {
    options.num_layers = 4;        // Six stages with the ends.
    options.num_query_groups = 4;  // Up to four tensor-parallel ranks share these and the tokens.
    options.seq_len = 4;           // Two context-parallel ranks cut these into as many runs.
    options.hidden_dropout = 0.1;
    options.sequence_parallel = sequence_parallel;
  };
  return setup;
}

void step(ShardedOptimizer& optimizer) {
  for (int i = 0; i < kHalf; ++i) optimizer.step();
}

// The state that a layout leaves behind after the first half: files, and the same in memory.
struct Baton {
  MemoryFileSystem disk;
  std::vector<SerializedState> states;
};

void run_first_half(const Setup& setup, Baton& baton) {
  baton.states.resize(static_cast<std::size_t>(setup.ranks));
  on_ranks(setup, [&](ShardedOptimizer& optimizer) {
    step(optimizer);
    optimizer.save_model(baton.disk, "/out");
    baton.states[static_cast<std::size_t>(optimizer.rank())] = optimizer.serialize();
  });
}

template <class Load>
WholeState run_second_half(const Setup& setup, const Load& load) {
  WholeState whole;
  on_ranks(setup, [&](ShardedOptimizer& optimizer) {
    load(optimizer);
    step(optimizer);
    add_to(whole, optimizer.serialize());
  });
  return whole;
}

}  // namespace

// Every layout hands over to one other for each model; in the suite 'slow' to all.
TEST_CASE("P49: training is handed on between layouts of all axes", "[P49]") {
  std::size_t distance = 0;
  for (const char* model : {"gpt2", "tied llama", "llama"}) {
    const WholeState uninterrupted = train_alone(leg_setup(kLegs.front(), model), 2 * kHalf);
    ++distance;
    for (std::size_t from = 0; from < kLegs.size(); ++from) {
      Baton baton;
      run_first_half(leg_setup(kLegs[from], model), baton);
      for (std::size_t to = 0; to < kLegs.size(); ++to) {
        if (!long_run() && to != (from + distance) % kLegs.size()) continue;
        INFO(model << ": " << kLegs[from].name << " to " << kLegs[to].name);
        const Setup setup = leg_setup(kLegs[to], model);
        const WholeState from_files = run_second_half(setup, [&](ShardedOptimizer& optimizer) {
          optimizer.load_model(baton.disk, {.directory = "/out", .step = kHalf});
        });
        CHECK(worst_error(from_files, uninterrupted) <= 1e-9);  // The oracle's bound.
        const bool same_from_memory = run_second_half(setup, [&](ShardedOptimizer& optimizer) {
                                        optimizer.deserialize(baton.states);
                                      }) == from_files;
        CHECK(same_from_memory);
      }
    }
  }
}

}  // namespace shardsim::test
