#include <vector>

#include <catch2/catch.hpp>

#include "tests/strategies/tensor_parallel_fixture.hpp"

// Whole models in parts against themselves in one piece: outputs of every module, gradients of
// every input, gradients of every part of a weight.
namespace shardsim::test {
namespace {

// A sum over a layer's inputs is cut into t sums: some tens of roundings of 1e-16 in another order,
// passed on through two blocks with weights of order one. A wrong term shows as 1e-2.
constexpr double kModelRounding = 1e-12;

// Where a rank has its tokens only, they are compared with its share of the whole's.
Tensor expected_activation(const ModelCase& c, const Tensor& whole, int rank) {
  const bool is_loss = whole.shape().rank() == 1;
  return c.sequence_parallel && !is_loss ? shard_of(whole, rank, c.size) : whole.flat();
}

void add_part_to(std::vector<Tensor>& sums, PartParameters& parameters) {
  if (sums.empty()) {
    for (int i = 0; i < parameters.size(); ++i) {
      sums.push_back(zeros(parameters.spec_of(i).shape));
    }
  }
  for (int i = 0; i < parameters.size(); ++i) {
    LocalRuntime runtime;
    add_in_place(runtime, parameters.gradient(i), sums[static_cast<std::size_t>(i)]);
  }
}

struct Bounds {
  double activations = kModelRounding;
  double gradients = kModelRounding;
};

void check_equal(const ModelCase& c, const Bounds& bounds, bool later = false) {
  WholeRunResult whole(c);
  const auto model = make_model(c.of_part());
  std::vector<Tensor> sums;
  run_ranks(c.size, [&](Runtime& runtime, Communicator& world) {
    PartRun part(c, *model, runtime, world, &whole.parameters);
    WeightGradientQueue queue;
    if (later) part.context.later = &queue;
    const int rank = world.rank();
    const auto modules_per_module = [&](int module) {  // A perceptron's pairs are one module.
      return model->num_modules() == whole.model->num_modules() ? module : 2 * module;
    };
    part.forward([&](int module, const Tensor& y) {
      const bool is_last = module + 1 == model->num_modules();
      const int same =
          is_last ? whole.model->num_modules() - 1 : modules_per_module(module + 1) - 1;
      const Tensor& expected = whole.outputs[static_cast<std::size_t>(same)];
      CAPTURE(module, rank);
      CHECK(relative_difference(y.flat(), expected_activation(c, expected, rank)) <=
            bounds.activations);
      if (!is_last) CHECK(y.shape() == model->activation_shape(c.samples));
    });
    part.backward([&](int module, const Tensor& d) {
      const Tensor& expected =
          whole.input_gradients[static_cast<std::size_t>(modules_per_module(module))];
      CAPTURE(module, rank);
      CHECK(relative_difference(d.flat(), expected_activation(c, expected, rank)) <=
            bounds.gradients);
    });
    if (later) {
      CHECK(part.parameters.ready().empty());
      part.context.later = nullptr;
      queue.run(part.context);
      CHECK(queue.empty());
    }
    CHECK(part.parameters.ready() == whole.parameters.ready());
    add_part_to(sums, part.parameters);
    for (int i = 0; i < part.parameters.size(); ++i) {
      const ParameterSpec& spec = part.parameters.spec_of(i);
      if (spec.sum_over_tp) continue;
      CAPTURE(spec.name, rank);
      const Tensor expected = part_of(spec, rank, whole.parameters.gradient(i));
      CHECK(relative_difference(part.parameters.gradient(i), expected) <= bounds.gradients);
    }
  });
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const ParameterSpec& spec = model->parameters()[i];
    if (!spec.sum_over_tp) continue;
    CAPTURE(spec.name);
    const Tensor expected = whole.parameters.gradient(static_cast<int>(i));
    CHECK(relative_difference(sums[i], expected) <= bounds.gradients);
  }
}

}  // namespace

TEST_CASE("a model in parts computes what it computes whole, activations and gradients") {
  for (const char* name : kDivisibleModels) {
    for (const int size : {1, 2, 4}) {
      CAPTURE(name, size);
      check_equal({.options = divisible_model(name), .size = size}, {});
    }
  }
}

TEST_CASE("P32: sequence shards one after the other are the whole, also across samples") {
  for (const char* name : kDivisibleModels) {
    for (const int size : {2, 4}) {  // 12 tokens: shards of 6 and of 3, samples of 4.
      for (const bool overlaps : {false, true}) {
        CAPTURE(name, size, overlaps);
        check_equal({.options = divisible_model(name),
                     .size = size,
                     .sequence_parallel = true,
                     .overlaps = overlaps},
                    {});
      }
    }
  }
}

TEST_CASE("a vocabulary that leaves a rank nothing but padding changes nothing") {
  for (const bool sequence_parallel : {false, true}) {
    for (const char* name : {"gpt2", "llama"}) {
      CAPTURE(name, sequence_parallel);
      // Parts of 3 of 9 classes: none are left for the last of four ranks.
      check_equal(
          {.options = divisible_model(name, 9), .size = 4, .sequence_parallel = sequence_parallel},
          {});
    }
  }
}

TEST_CASE("weight gradients that are added later are the same, in the same order") {
  for (const char* name : kDivisibleModels) {
    for (const bool sequence_parallel : {false, true}) {
      CAPTURE(name, sequence_parallel);
      check_equal({.options = divisible_model(name), .sequence_parallel = sequence_parallel}, {},
                  /*later=*/true);
    }
    check_equal({.options = divisible_model(name), .sequence_parallel = true, .overlaps = true}, {},
                /*later=*/true);
  }
}

TEST_CASE("P34: dropout drops the same elements in parts, and again when forward runs again") {
  for (const char* name : kDivisibleModels) {
    for (const int size : {2, 4}) {
      for (const bool sequence_parallel : {false, true}) {
        for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
          ModelCase c{.options = divisible_model(name),
                      .size = size,
                      .sequence_parallel = sequence_parallel,
                      .overlaps = sequence_parallel && size == 4};
          c.options.hidden_dropout = 0.3;
          c.options.recompute = recompute;
          CAPTURE(name, size, sequence_parallel, static_cast<int>(recompute));
          check_equal(c, {}, /*later=*/size == 2);
        }
      }
    }
  }
}

TEST_CASE("on whole numbers a perceptron in parts is bitwise the whole one") {
  for (const std::int64_t layers : {1, 2, 3, 4}) {  // Hidden ones: pairs, and one layer left over.
    for (const int size : {1, 2, 4}) {
      for (const bool later : {false, true}) {
        ModelOptions options = small_model("integer mlp");
        options.num_layers = layers;
        CAPTURE(layers, size, later);
        check_equal({.options = options, .size = size}, {.activations = 0.0, .gradients = 0.0},
                    later);
      }
    }
  }
}

TEST_CASE("with real numbers a perceptron in parts is the whole one up to rounding") {
  for (const std::int64_t layers : {1, 2}) {
    ModelOptions options = small_model("mlp");
    options.num_layers = layers;
    check_equal({.options = options, .size = 4}, {});
  }
}

TEST_CASE("P32: without sequence parallelism activations are bitwise equal on all ranks") {
  for (const char* name : kDivisibleModels) {
    const ModelCase c{.options = divisible_model(name), .size = 4};
    WholeRunResult whole(c);
    const auto model = make_model(c.of_part());
    std::vector<Tensor> first;  // Those of rank 0; it runs first.
    std::size_t compared = 0;
    run_ranks(c.size, [&](Runtime& runtime, Communicator& world) {
      PartRun part(c, *model, runtime, world, &whole.parameters);
      std::vector<Tensor> mine;
      const auto keep = [&](int, const Tensor& tensor) { mine.push_back(copy_of(tensor)); };
      part.forward(keep);
      part.backward(keep);
      if (first.empty()) first = mine;
      REQUIRE(first.size() == mine.size());
      for (std::size_t i = 0; i < mine.size(); ++i, ++compared) {
        CHECK(max_difference(mine[i], first[i]) == 0.0);
      }
    });
    CHECK(compared == 4 * 7);  // Four modules, three gradients of inputs.
  }
}

TEST_CASE("P33: norm gradients of token shards are partial sums, of all tokens they are whole") {
  for (const bool sequence_parallel : {false, true}) {
    const ModelCase c{.options = divisible_model("gpt2"), .sequence_parallel = sequence_parallel};
    WholeRunResult whole(c);
    const auto model = make_model(c.of_part());
    run_ranks(c.size, [&](Runtime& runtime, Communicator& world) {
      PartRun part(c, *model, runtime, world, &whole.parameters);
      part.run();
      int replicated = 0;
      for (int i = 0; i < part.parameters.size(); ++i) {
        const ParameterSpec& spec = part.parameters.spec_of(i);
        if (spec.is_split()) {
          CHECK(!spec.sum_over_tp);
          continue;
        }
        ++replicated;
        CAPTURE(spec.name);
        CHECK(spec.sum_over_tp == sequence_parallel);
        const double difference =
            relative_difference(part.parameters.gradient(i), whole.parameters.gradient(i));
        CHECK((difference > 1e-3) == sequence_parallel);
      }
      CHECK(replicated == 1 + 2 * 6 + 2);  // Positions; norms and row biases of two blocks; norm.
    });
  }
}

TEST_CASE("each rank has 1/t of every cut weight, and the flops of the model stay the whole's") {
  for (const char* name : kDivisibleModels) {
    const ModelCase c{.options = divisible_model(name, 12), .size = 4};
    const auto whole = make_model(c.options);
    const auto part = make_model(c.of_part());
    std::int64_t replicated = 0;
    std::int64_t mine = 0;
    for (const ParameterSpec& spec : part->parameters()) {
      mine += spec.shape.numel();
      if (!spec.is_split()) replicated += spec.shape.numel();
      CHECK(spec.is_split() == (spec.shape.numel() * 4 == spec.whole_shape().numel()));
    }
    CHECK(4 * (mine - replicated) + replicated == num_parameters(*whole));
    CHECK(num_parameters(*part) == num_parameters(*whole));
    CHECK(part->model_flops_per_sample() == whole->model_flops_per_sample());
    for (std::size_t i = 0; i < whole->parameters().size(); ++i) {
      CHECK(part->parameters()[i].name == whole->parameters()[i].name);
      CHECK(part->parameters()[i].whole_shape() == whole->parameters()[i].shape);
    }
  }
}

}  // namespace shardsim::test
