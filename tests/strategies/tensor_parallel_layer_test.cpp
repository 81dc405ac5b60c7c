#include <array>
#include <cmath>
#include <string>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "strategies/model/parameter_table.hpp"
#include "strategies/model/pass.hpp"
#include "strategies/sharding/tensor_parallel.hpp"

#include "tests/strategies/tensor_parallel_fixture.hpp"

// Each kind of layer in parts against itself in one piece, where possible on whole numbers and
// bitwise; and what must not be put together.
namespace shardsim::test {
namespace {

// Numbers small enough that no sum of this file leaves the exact range.
Tensor whole_numbers(std::string_view name, const Shape& shape) {
  const Tensor tensor = random_tensor(name, shape);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    tensor.set(i, std::round(4.0 * tensor.get(i)));
  }
  return tensor;
}

/// Weights and gradients of a few parameters, whole, or the parts of one rank.
class FewParameters final : public Parameters {
 public:
  explicit FewParameters(std::vector<Tensor> weights) : weights_(std::move(weights)) {
    for (const Tensor& weight : weights_) gradients_.push_back(zeros(weight.shape()));
  }
  FewParameters(const ParameterTable& table, const FewParameters& whole, int part) {
    for (std::size_t i = 0; i < table.specs().size(); ++i) {
      weights_.push_back(part_of(table.specs()[i], part, whole.weights_[i]));
      gradients_.push_back(zeros(table.specs()[i].shape));
    }
  }
  [[nodiscard]] Tensor weight(int index) override { return weights_.at(to_size(index)); }
  [[nodiscard]] Tensor gradient(int index) override { return gradients_.at(to_size(index)); }
  void gradient_ready(int index) override { ready.push_back(index); }

  std::vector<int> ready;

 private:
  static std::size_t to_size(int index) { return static_cast<std::size_t>(index); }
  std::vector<Tensor> weights_;
  std::vector<Tensor> gradients_;
};

// Three column-parallel layers that read one input, one of them without bias, then a row-parallel
// one on the sum of their outputs: 6 inputs, 8 hidden, 6 outputs.
constexpr const char* kColumns = "columns";
constexpr const char* kRow = "row";

ParameterTable pair_table(int t) {
  ParameterTable table;
  table.begin_unit("pair");
  const Init init{Init::Kind::zeros, 0.0};
  for (const char* name : {"a", "b"}) {
    table.add_split(std::string(name) + ".weight", {8, 6}, init, 0, t);
    table.add_split(std::string(name) + ".bias", {8}, init, 0, t);
  }
  table.add_split("c.weight", {8, 6}, init, 0, t);
  table.add_split("row.weight", {6, 8}, init, 1, t);
  table.add("row.bias", {6}, init);
  return table;
}

FewParameters whole_pair() {
  std::vector<Tensor> weights;
  const ParameterTable table = pair_table(1);
  for (const ParameterSpec& spec : table.specs()) {
    weights.push_back(whole_numbers(spec.name, spec.shape));
  }
  return FewParameters(std::move(weights));
}

struct PairResult {
  Tensor y;
  Tensor dx;
};

PairResult run_pair(const Pass& pass, const Tensor& x, const Tensor& dy) {
  const Tensor entered = enter_region(pass, x, kColumns);
  Tensor hidden = apply_linear_with_bias(pass, 0, entered);
  add_in_place(pass.runtime, apply_linear_with_bias(pass, 2, entered), hidden);
  add_in_place(pass.runtime, apply_linear(pass, 4, entered), hidden);
  PairResult result;
  result.y = apply_row_linear(pass, 5, true, hidden, kRow);
  const Tensor d = backward_row_linear(pass, 5, true, dy, hidden, kRow);
  std::array<ColumnLinear, 3> layers = {{{.k = 0, .has_bias = true, .dy = d},
                                         {.k = 2, .has_bias = true, .dy = d},
                                         {.k = 4, .dy = d}}};
  result.dx = backward_columns(pass, layers, x, kColumns);
  return result;
}

template <class Body>
std::string code_of_call(Body&& body, std::string* message = nullptr) {
  try {
    body();
  } catch (const UsageError& error) {
    if (message != nullptr) *message = error.what();
    return error.code();
  }
  return "none";
}

}  // namespace

TEST_CASE("P29: column- and row-parallel layers are bitwise the whole ones, biases added once") {
  const Tensor x = whole_numbers("x", {2, 4, 6});
  const Tensor dy = whole_numbers("dy", {2, 4, 6});
  LocalRuntime local;
  FewParameters whole = whole_pair();
  const PairResult expected = run_pair({{local, whole}, 0, 4}, x, dy);
  for (const int size : {1, 2, 4, 8}) {
    for (const bool sequence_parallel : {false, true}) {
      for (const bool later : {false, true}) {
        const ParameterTable table = pair_table(size);
        run_ranks(size, [&](Runtime& runtime, Communicator& world) {
          const int rank = world.rank();
          const auto own = [&](const Tensor& tensor) {
            if (!sequence_parallel) return copy_of(tensor);
            return shard_of(tensor, rank, size).view(0, {8 / size, 6});
          };
          TensorParallel parallel(world, sequence_parallel);
          FewParameters part(table, whole, rank);
          WeightGradientQueue queue;
          const ModelContext context{runtime, part, {&parallel}};
          Pass pass{context, 0, 4};
          if (later) pass.later = &queue;
          const PairResult result = run_pair(pass, own(x), own(dy));
          queue.run(context);
          CHECK(max_difference(result.y.flat(), own(expected.y).flat()) == 0.0);
          CHECK(max_difference(result.dx.flat(), own(expected.dx).flat()) == 0.0);
          CHECK(part.ready == whole.ready);
          for (int i = 0; i < 6; ++i) {
            const ParameterSpec& spec = table.specs()[static_cast<std::size_t>(i)];
            CHECK(max_difference(part.gradient(i), part_of(spec, rank, whole.gradient(i))) == 0.0);
          }
          const Tensor bias_gradient = copy_of(part.gradient(6));
          if (sequence_parallel) world.all_reduce(bias_gradient, ReduceOp::sum).wait();
          CHECK(max_difference(bias_gradient, whole.gradient(6)) == 0.0);
        });
      }
    }
  }
}

TEST_CASE("P35: a row-parallel bias is added once, whatever the number of ranks") {
  const Tensor bias = whole_numbers("bias", {6});
  for (const int size : {1, 2, 4}) {
    run_ranks(size, [&](Runtime& runtime, Communicator& world) {
      TensorParallel parallel(world, false);
      FewParameters part({whole_numbers("weight", {6, 8 / size}), bias});
      parallel.begin_region("before");
      const Tensor y =
          apply_row_linear({{runtime, part, {&parallel}}, 0}, 0, true, zeros({3, 8 / size}), kRow);
      for (std::int64_t i = 0; i < y.numel(); ++i) CHECK(y.get(i) == bias.get(i % 6));
    });
  }
}

TEST_CASE("P29: parts of a vocabulary look up and add what the whole table does") {
  const Tensor tokens = tensor_of({2, 3}, {4, 0, 4, 6, 2, 0}, DType::int32);
  const Tensor table = whole_numbers("table", {7, 3});
  const Tensor dy = whole_numbers("dy", {2, 3, 3});
  LocalRuntime local;
  const Tensor y = token_embedding_forward(local, tokens, table, {0, 7, 7});
  const Tensor gradient = zeros({7, 3});
  token_embedding_backward(local, tokens, dy, gradient, {0, 7, 7});
  for (const int size : {1, 2, 4, 5}) {  // Parts of 7, 4, 2, 2 rows; the fifth has padding only.
    ParameterTable parameters;
    parameters.begin_unit("embedding");
    parameters.add_split("table", {7, 3}, {Init::Kind::zeros, 0.0}, 0, size);
    const ParameterSpec& spec = parameters.specs().front();
    const Tensor sum = zeros({2, 3, 3});
    for (int rank = 0; rank < size; ++rank) {
      const VocabPart part = vocab_part(7, size, rank);
      const Tensor own = part_of(spec, rank, table);
      add_in_place(local, token_embedding_forward(local, tokens, own, part), sum);
      const Tensor own_gradient = zeros(spec.shape);
      token_embedding_backward(local, tokens, dy, own_gradient, part);
      CHECK(max_difference(own_gradient, part_of(spec, rank, gradient)) == 0.0);
    }
    CHECK(max_difference(sum, y) == 0.0);
  }
  const Tensor outside = tensor_of({1, 1}, {7}, DType::int32);
  CHECK(code_of_call([&] {
          (void)token_embedding_forward(local, outside, zeros({4, 3}), vocab_part(7, 2, 0));
        }) == "E0612");
}

TEST_CASE("P29: the cross entropy of cut logits is that of whole ones, with its gradient") {
  const Tensor logits = random_tensor("logits", {2, 3, 7});
  for (std::int64_t i = 0; i < logits.numel(); ++i) logits.set(i, 300.0 * logits.get(i));  // exp!
  const Tensor targets = tensor_of({2, 3}, {6, -1, 0, 2, 3, -1}, DType::int32);
  LocalRuntime local;
  const CrossEntropyOutput expected = cross_entropy_forward(local, logits, targets);
  const Tensor slope = copy_of(logits);
  cross_entropy_backward(local, slope, targets, expected.log_sum_exp, 0.37, {0, 7, 7});
  for (const int size : {1, 2, 4, 5}) {
    run_ranks(size, [&](Runtime& runtime, Communicator& world) {
      TensorParallel parallel(world, false);
      const VocabPart part = vocab_part(7, size, world.rank());
      const std::int64_t columns = (7 + size - 1) / size;
      const Tensor own = zeros({2, 3, columns});
      const Tensor own_slope = zeros({2, 3, columns});
      for (std::int64_t row = 0; row < 6; ++row) {
        for (std::int64_t i = 0; i < part.count; ++i) {
          own.set(row * columns + i, logits.get(row * 7 + part.first + i));
          own_slope.set(row * columns + i, slope.get(row * 7 + part.first + i));
        }
      }
      const CrossEntropyOutput out =
          vocab_parallel_cross_entropy_forward(runtime, parallel, own, targets, part);
      cross_entropy_backward(runtime, own, targets, out.log_sum_exp, 0.37, part);
      // Sums of seven numbers in another order.
      CHECK(out.loss.get(0) == Approx(expected.loss.get(0)).epsilon(1e-14));
      CHECK(relative_difference(out.log_sum_exp, expected.log_sum_exp) < 1e-14);
      CHECK(max_difference(own, own_slope) < 1e-12);  // Log-sum-exps of 1e3, so exps to 1e-13.
    });
  }
}

TEST_CASE("P30: layers whose cuts do not fit together are refused with both names") {
  run_ranks(2, [&](Runtime& runtime, Communicator& world) {
    TensorParallel parallel(world, false);
    const Tensor x = zeros({3, 6});
    std::string message;
    FewParameters square({whole_numbers("w", {3, 6}), whole_numbers("v", {3, 6})});
    const Pass pass{{runtime, square, {&parallel}}, 0};
    const Tensor cut = apply_linear(pass, 0, enter_region(pass, x, "first"));
    CHECK(code_of_call([&] { (void)enter_region(pass, cut, "second"); }, &message) == "E0642");
    CHECK(message.find("second") != std::string::npos);
    CHECK(message.find("first") != std::string::npos);
    // Also seen from the shapes: the second layer's weight has rows of six, its input of three.
    CHECK(code_of_call([&] { (void)apply_linear(pass, 1, cut); }) == "E0611");
    (void)parallel.reduce_from(runtime, zeros({3, 6}), "row");
    CHECK(code_of_call(
              [&] {
                (void)parallel.reduce_from(runtime, zeros({3, 6}), "another row");
              },
              &message) == "E0643");
    CHECK(message.find("another row") != std::string::npos);
    // Backward likewise, in the other direction.
    (void)parallel.reduce_from_backward(runtime, x, x.shape(), "row");
    CHECK(code_of_call([&] {
            (void)parallel.reduce_from_backward(runtime, x, x.shape(), "another row");
          }) == "E0642");
  });
}

TEST_CASE("tokens that do not divide into shards are refused") {
  run_ranks(2, [&](Runtime& runtime, Communicator& world) {
    TensorParallel parallel(world, true);
    parallel.begin_region("embedding");
    std::string message;
    CHECK(code_of_call(
              [&] {
                (void)parallel.reduce_from(runtime, zeros({3, 5, 2}), "embedding");
              },
              &message) == "E0641");
    CHECK(message.find("15 tokens") != std::string::npos);
  });
  ModelCase c{.options = divisible_model("llama"), .size = 8, .sequence_parallel = true};
  c.options.num_query_groups = 8;
  c.options.ffn_hidden_size = 16;
  const auto model = make_model(c.of_part());
  CHECK(code_of_call([&] { (void)model->activation_shape(3); }) == "E0641");
  CHECK(model->activation_shape(2) == Shape{1, 16});
}

TEST_CASE("degrees that do not divide a model are refused by name") {
  const auto code = [](const char* name, int size, bool sequence_parallel = false) {
    ModelOptions options = divisible_model(name);
    options.tensor_parallel = size;
    options.sequence_parallel = sequence_parallel;
    return code_of_call([&] { (void)make_model(options); });
  };
  CHECK(code("llama", 4) == "none");
  CHECK(code("llama", 0) == "E0634");
  CHECK(code("llama", 1, true) == "E0635");
  CHECK(code("gpt2", 3) == "E0631");                   // 8 heads; ffn 12 is fine.
  CHECK(code("llama", 8) == "E0633");                  // ffn 12.
  for (const char* name : {"llama", "untied gpt2"}) {  // 4 groups: llama copies them.
    ModelOptions grouped = divisible_model(name);
    grouped.ffn_hidden_size = 16;
    grouped.tensor_parallel = 8;
    CHECK(code_of_call([&] { (void)make_model(grouped); }) ==
          (grouped.family == "llama" ? "none" : "E0632"));
  }
  ModelOptions options;
  options = small_model("mlp");
  options.tensor_parallel = 2;
  CHECK(code_of_call([&] { (void)make_model(options); }) == "none");
  options.sequence_parallel = true;
  CHECK(code_of_call([&] { (void)make_model(options); }) == "E0637");
}

TEST_CASE("a model of parts does not run whole, or at another degree, without saying so") {
  for (const char* name : {"llama", "mlp"}) {
    ModelCase c{.options = name == std::string("mlp") ? small_model(name) : divisible_model(name)};
    const auto model = make_model(c.of_part());
    LocalRuntime local;
    PartParameters parameters(*model, local, DType::fp64, 0, nullptr);
    const Batch batch = model->make_batch(local, 3, 0, 2, 0.0);
    const auto run = [&](Runtime& runtime, TensorParallel* parallel) {
      Saved saved;
      return code_of_call([&] {
        (void)model->forward(0, {runtime, parameters, {.tensor = parallel}}, {}, batch, saved);
      });
    };
    CHECK(run(local, nullptr) == "E0636");
    run_ranks(4, [&](Runtime& runtime, Communicator& world) {
      TensorParallel parallel(world, false);
      CHECK(run(runtime, &parallel) == "E0636");
    });
    run_ranks(2, [&](Runtime& runtime, Communicator& world) {
      TensorParallel shards(world, true);
      CHECK(run(runtime, &shards) == "E0636");
      TensorParallel parallel(world, false);
      CHECK(run(runtime, &parallel) == "none");
    });
  }
}

}  // namespace shardsim::test
