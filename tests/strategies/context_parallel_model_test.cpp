#include <memory>
#include <string>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "strategies/model/activation.hpp"
#include "strategies/model/embedding.hpp"

#include "tests/strategies/context_parallel_fixture.hpp"
#include "tests/strategies/model_fixture.hpp"

// Layers around attention know the positions of their tokens: a rank's share of everything is that
// of the whole, bit by bit.
namespace shardsim::test {
namespace {

constexpr std::int64_t kSeqLen = 12;

ModelOptions options_of(const std::string& name, int c) {
  ModelOptions options = small_model(name);
  options.seq_len = kSeqLen;
  options.max_position_embeddings = kSeqLen;
  options.context_parallel = c;
  return options;
}

bool equal(const Tensor& a, const Tensor& b) { return max_difference(a, b) == 0.0; }

}  // namespace

TEST_CASE("shares of a sequence are its runs from both ends, each position once") {
  const SequencePart second{1, 3};
  const std::int64_t expected[] = {2, 3, 8, 9};
  for (std::int64_t i = 0; i < 4; ++i) CHECK(second.position_of(i, 12) == expected[i]);
  CHECK(second.token_of(4 + 2, 12) == 12 + 8);  // The next sample's.
  CHECK(SequencePart().token_of(29, 12) == 29);
}

TEST_CASE("a share's tokens and targets are those of the whole batch, ignored ones, too") {
  LocalRuntime runtime;
  const std::unique_ptr<Model> model = make_model(options_of("llama", 1));
  const Batch all = model->make_batch(runtime, 8, 3, 4, 0.4);
  std::int64_t counted = 0;
  for (const int c : {2, 3}) {
    counted = 0;
    for (int i = 0; i < c; ++i) {
      const SequencePart part{i, c};
      const Batch share = model->make_batch(runtime, 8, 3, 4, 0.4, part);
      CHECK(share.part == part);
      CHECK(share.inputs.shape() == Shape{4, kSeqLen / c});
      for (std::int64_t token = 0; token < share.inputs.numel(); ++token) {
        const std::int64_t whole = part.token_of(token, kSeqLen);
        CHECK(share.inputs.get(token) == all.inputs.get(whole));
        CHECK(share.targets.get(token) == all.targets.get(whole));
        counted += share.targets.get(token) >= 0 ? 1 : 0;
      }
      CHECK(model->count_targets(8, 3, 4, 0.0, part) == 4 * kSeqLen / c);
    }
    std::int64_t sum = 0;
    for (int i = 0; i < c; ++i) sum += model->count_targets(8, 3, 4, 0.4, {i, c});
    CHECK(sum == counted);
    CHECK(sum == model->count_targets(8, 3, 4, 0.4));
  }
}

TEST_CASE("rotation, positions and dropout of a share are those of the whole") {
  LocalRuntime runtime;
  const Tensor x = random_tensor("x", {2, kSeqLen, 4});
  const Tensor table = random_tensor("table", {kSeqLen + 1, 4});
  const Dropout dropout{.rate = 0.4, .seed = 5, .first_token = 3 * kSeqLen};
  const Tensor rotated = copy_of(x);
  rotary_forward(runtime, rotated, {4, 100.0});
  const Tensor placed = copy_of(x);
  position_embedding_forward(runtime, table, placed, {kSeqLen, 0});
  const Tensor dropped = copy_of(x);
  dropout_forward(runtime, dropout, {1, "mlp"}, 0, dropped);
  for (const int c : {2, 3}) {
    const Tensor gradient = zeros(table.shape());
    for (int i = 0; i < c; ++i) {
      const SequencePart part{i, c};
      const auto mine = [&](const Tensor& all) { return rows_of(all, kSeqLen, part); };
      Dropout of_part = dropout;
      of_part.part = part;
      of_part.seq_len = kSeqLen;
      const Tensor turned = mine(x);
      rotary_forward(runtime, turned, {4, 100.0}, part);
      CHECK(equal(turned, mine(rotated)));
      rotary_backward(runtime, turned, {4, 100.0}, part);
      CHECK(max_difference(turned, mine(x)) < 1e-14);  // Two roundings.
      const Tensor here = mine(x);
      position_embedding_forward(runtime, table, here, {kSeqLen, 0, part});
      CHECK(equal(here, mine(placed)));
      const Tensor kept = mine(x);
      dropout_forward(runtime, of_part, {1, "mlp"}, 0, kept);
      CHECK(equal(kept, mine(dropped)));
      CHECK(equal(dropout_backward(runtime, of_part, {1, "mlp"}, 0, mine(x)), mine(dropped)));
      position_embedding_backward(runtime, mine(x), gradient, {kSeqLen, 0, part});
    }
    const Tensor expected = zeros(table.shape());
    position_embedding_backward(runtime, x, expected, {kSeqLen, 0});
    CHECK(equal(gradient, expected));
  }
}

// As sequence parallelism cuts a share's tokens further, wherever samples end.
TEST_CASE("a shard of a share's tokens is at the positions of the share") {
  LocalRuntime runtime;
  const SequencePart part{1, 3};
  const Tensor x = rows_of(random_tensor("x", {3, kSeqLen, 2}), kSeqLen, part);  // (3, 4, 2)
  const Tensor table = random_tensor("table", {kSeqLen, 2});
  Dropout dropout{.rate = 0.5, .seed = 5, .first_token = 0, .part = part, .seq_len = kSeqLen};
  const Tensor placed = copy_of(x);
  position_embedding_forward(runtime, table, placed, {kSeqLen, 0, part});
  dropout_forward(runtime, dropout, {0, "mlp"}, 0, placed);
  for (const std::int64_t first : {0, 6}) {
    const Tensor shard = zeros({6, 2});
    for (std::int64_t i = 0; i < shard.numel(); ++i) shard.set(i, x.get(first * 2 + i));
    position_embedding_forward(runtime, table, shard, {kSeqLen, first, part});
    dropout_forward(runtime, dropout, {0, "mlp"}, first, shard);
    for (std::int64_t i = 0; i < shard.numel(); ++i) {
      CHECK(shard.get(i) == placed.get(first * 2 + i));
    }
  }
}

TEST_CASE("what a module hands on is a share, and counts of samples are whole") {
  ModelOptions options = options_of("llama", 3);
  const std::unique_ptr<Model> model = make_model(options);
  CHECK(model->activation_shape(2) == Shape{2, kSeqLen / 3, options.hidden_size});
  CHECK(model->positions_per_sample() == kSeqLen);
  options.tensor_parallel = 2;
  options.sequence_parallel = true;
  CHECK(make_model(options)->activation_shape(2) == Shape{4, options.hidden_size});
  const std::unique_ptr<Model> whole = make_model(options_of("llama", 1));
  CHECK(model->model_flops_per_sample() == whole->model_flops_per_sample());
}

TEST_CASE("what context parallelism cannot cut is refused by name") {
  CHECK(code_of_model(options_of("gpt2", 3)) == "none");
  CHECK(code_of_model(options_of("gpt2", 0)) == "E0662");
  CHECK(code_of_model(options_of("gpt2", 4)) == "E0663");  // 12 positions in 8 runs.
  ModelOptions options = options_of("gpt2", 3);
  options.context_attention = ContextAttention::ulysses;
  CHECK(code_of_model(options) == "E0664");  // 4 heads.
  options = options_of("gpt2", 6);
  options.context_attention = ContextAttention::two_level;
  options.ulysses_degree = 4;
  CHECK(code_of_model(options) == "E0665");
  options.ulysses_degree = 2;
  CHECK(code_of_model(options) == "none");
  options.tensor_parallel = 4;
  CHECK(code_of_model(options) == "E0664");  // One head is left.
  ModelOptions mlp = small_model("mlp");
  mlp.context_parallel = 2;
  CHECK(code_of_model(mlp) == "E0661");
}

TEST_CASE("a batch of another part than the rank's is refused") {
  const ModelOptions options = options_of("llama", 2);
  const std::unique_ptr<Model> model = make_model(options);
  run_ranks(2, [&](Runtime& runtime, Communicator& group) {
    ContextParallel parallel(group, ContextAttention::ring, 1);
    WholeParameters parameters(*model, runtime, 7, DType::fp64, DType::fp64);
    const SequencePart others{1 - group.rank(), 2};
    Saved saved;
    try {
      (void)model->forward(0, {runtime, parameters, {.context = &parallel}}, {},
                           model->make_batch(runtime, 1, 0, 1, 0.0, others), saved);
      FAIL("the wrong half is accepted");
    } catch (const UsageError& error) {
      CHECK(std::string(error.code()) == "E0666");
    }
  });
}

}  // namespace shardsim::test
