#include "backends/repeats.hpp"

#include <functional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "backends/program/recorder.hpp"

// A program in which work repeats is the same whether the work is run each time or written down
// from what was run before.
namespace shardsim::test {
namespace {

// A layer that keeps a tensor for its backward, which frees it.
struct Layer {
  // `times`: how often it has run in this program; as often as it is done where it never repeats.
  std::function<void(Layer&, Runtime&, int times)> extra = [](Layer&, Runtime&, int) {};
  int times = 0;
  int num_run = 0;  // In all programs.
  std::vector<Tensor> elsewhere = {};
  int num_sizes = 1;               // Its inputs have so many sizes, in turn.
  bool is_gradient_freed = false;  // By whoever has it, when told that it is ready.
  int num_backward_run = 0;        // In all programs.
  // Between its forward and its backward. May look into what is kept only through show().
  std::function<void(Layer&, Repeats*, std::vector<Tensor>& kept, int time)> between =
      [](Layer&, Repeats*, std::vector<Tensor>&, int) {};
  int num_seen = 0;  // How often `between` has looked, in all programs.

  Tensor forward(Runtime& runtime, Communicator& world, const Tensor& input,
                 std::vector<Tensor>& kept, const Repeats::Ask& ask) {
    const Tensor weight = ask(0);
    const Tensor scratch =
        runtime.allocate(MemoryCategory::activations, {3, weight.numel()}, DType::fp32);
    // Nobody but backward sees the first, the last and the one that stands there twice.
    kept = {runtime.allocate(MemoryCategory::activations, {7, 3}, DType::bf16), input,
            runtime.allocate(MemoryCategory::activations, {64}, DType::fp32), Tensor(),
            runtime.allocate(MemoryCategory::activations, {32}, DType::fp32)};
    kept.push_back(kept[4].view(4, {2, 2}));
    Work sum = world.all_reduce(scratch, ReduceOp::sum, {.label = "layer"});
    runtime.compute({"work", ComputeKind::matmul, DType::fp32, 100, 10}, [] {});
    sum.wait();
    ++num_run;
    extra(*this, runtime, times++);
    return kept[2].view(8, {4, 2});
  }
  Tensor backward(Runtime& runtime, std::vector<Tensor>& kept, const Repeats::Ask& ask) {
    Tensor gradient = ask(1);
    kept[1] = kept[0] = Tensor();  // Before the others.
    runtime.compute({"back", ComputeKind::matmul, DType::fp32, 200, gradient.numel()}, [] {});
    ++num_backward_run;
    if (is_gradient_freed) {
      gradient = Tensor();
      (void)ask(2);
    }
    kept.clear();
    return runtime.allocate(MemoryCategory::activations, {16}, DType::fp32);
  }
};

// Goes through the layer forward and backward, `times` times.
RankProgram recorded(Layer& layer, int times, bool repeats) {
  Recorder recorder(2);
  return recorder.record(0, [&](Runtime& runtime, Communicator& world, ProgramWriter&) {
    layer.times = 0;
    const Tensor weight = runtime.allocate(MemoryCategory::params, {5}, DType::fp32);
    Tensor gradient;
    const Repeats::Ask ask = [&](int question) {
      if (question == 0) return weight;
      if (question == 2) return gradient = Tensor();
      if (!gradient.defined()) {  // Only the first time.
        gradient = runtime.allocate(MemoryCategory::grads, {5}, DType::fp32);
        runtime.zero("zero", gradient);
      }
      return gradient;
    };
    const auto turn = [&](Repeats::Work work) {
      Repeats* const known = repeats ? runtime.repeats() : nullptr;
      return known == nullptr ? work.run(work.ask) : known->run(work);
    };
    for (int i = 0; i < times; ++i) {
      const std::int64_t size = 16 + i % layer.num_sizes;
      Tensor input = runtime.allocate(MemoryCategory::activations, {size}, DType::fp32);
      std::vector<Tensor> kept;
      const Tensor output = turn({.key = 0,
                                  .used = {&input, 1},
                                  .kept = kept,
                                  .ask = ask,
                                  .run = [&](const Repeats::Ask& asks) {
                                    return layer.forward(runtime, world, input, kept, asks);
                                  }});
      input = Tensor();
      layer.between(layer, repeats ? runtime.repeats() : nullptr, kept, i);
      const Tensor back = turn(
          {.key = 1,
           .used = {&output, 1},
           .kept = kept,
           .ask = ask,
           .run = [&](const Repeats::Ask& asks) { return layer.backward(runtime, kept, asks); }});
    }
    layer.elsewhere.clear();
  });
}

// `least_seen`: how often `between` looks; `least_run`: more than once through all if it is
// recorded anew.
void check_same(Layer layer, int most_run, int least_seen = 0, int least_run = 1) {
  Layer each = layer;
  const RankProgram expected = recorded(each, 40, false);
  const RankProgram program = recorded(layer, 40, true);
  CHECK(layer.num_seen == least_seen);
  CHECK(layer.num_run >= least_run);
  CHECK(each.num_run == 40);
  CHECK(layer.num_run <= most_run);
  CHECK(layer.num_backward_run <= most_run);
  REQUIRE(program.steps.size() == expected.steps.size());
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    INFO("step " << i);
    REQUIRE(describe(program, program.steps[i]) == describe(expected, expected.steps[i]));
  }
  CHECK(program.num_allocations == expected.num_allocations);
  CHECK(program.num_works == expected.num_works);
}

// Looks at what is kept, as the offload of activations does.
void look(Layer& self, Repeats* repeats, std::vector<Tensor>& kept, int) {
  if (repeats != nullptr) repeats->show(kept);
  REQUIRE(kept.size() == 6);
  CHECK(kept[0].dtype() == DType::bf16);
  CHECK(kept[1].numel() == 16);
  CHECK(kept[2].shape() == Shape{64});
  CHECK_FALSE(kept[3].defined());
  CHECK(kept[4].num_bytes() == 128);
  CHECK(kept[5].shape() == Shape{2, 2});
  CHECK(kept[5].shares_storage(kept[4]));
  ++self.num_seen;
}

}  // namespace

TEST_CASE("repeats: work is run a few times, and written down as often as it is done") {
  check_same({}, 10);
}

TEST_CASE("repeats: who looks at what work has kept finds its tensors") {
  check_same({.between = look}, 10, 40);
  check_same({.between =
                  [](Layer& self, Repeats* repeats, std::vector<Tensor>& kept, int time) {
                    if (time % 3 == 1) look(self, repeats, kept, time);
                  }},
             10, 13);
}

TEST_CASE("repeats: a tensor that goes between two works goes in what is written, too") {
  check_same({.between =
                  [](Layer&, Repeats* repeats, std::vector<Tensor>& kept, int) {
                    if (repeats != nullptr) repeats->show(kept);
                    kept[0] = Tensor();
                  }},
             10);
}

TEST_CASE("repeats: what is lost between two works is found, and all is run") {
  // Its backward has nothing to free, which a written one could not know.
  const Layer layer{.between = [](Layer&, Repeats*, std::vector<Tensor>& kept, int time) {
    if (time == 38) kept.assign(6, Tensor());
  }};
  check_same(layer, 51, 0, 50);
}

TEST_CASE("repeats: work that changes is run each time") {
  const auto changes_at = [](int time) {
    return Layer{[time](Layer&, Runtime& runtime, int times) {
      const std::int64_t bytes = times >= time ? 8 : 9;
      runtime.compute({"extra", ComputeKind::memory_bound, DType::fp32, 0, bytes}, [] {});
    }};
  };
  check_same(changes_at(1), 40);
  // It was written down without being run; then all of it is recorded once more.
  check_same(changes_at(9), 50);
}

TEST_CASE("repeats: works of one key that take turns are run each time") {
  check_same(Layer{[](Layer&, Runtime& runtime, int times) {
               const std::int64_t bytes = times % 4 == 3 ? 8 : 9;
               runtime.compute({"extra", ComputeKind::memory_bound, DType::fp32, 0, bytes}, [] {});
             }},
             40);
}

TEST_CASE("repeats: works of one key are known by the sizes of their tensors, too") {
  check_same(Layer{.num_sizes = 3}, 3 * 9);
}

TEST_CASE("repeats: what was an answer may go while the work still asks") {
  check_same(Layer{.is_gradient_freed = true}, 10);
}

TEST_CASE("repeats: work that leaves something with others is run each time") {
  const Layer layer{[](Layer& self, Runtime& runtime, int times) {
    self.elsewhere.push_back(runtime.allocate(MemoryCategory::comm, {2}, DType::fp32));
    if (times % 3 == 0) self.elsewhere.clear();
  }};
  check_same(layer, 40);
}

}  // namespace shardsim::test
