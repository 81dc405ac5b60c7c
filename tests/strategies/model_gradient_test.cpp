#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/strategies/model_fixture.hpp"

// Every gradient of every whole model against central differences of its own forward pass.
using namespace shardsim;

namespace {

// The quotient of five points with step e is wrong by e^4 / 30 times the fifth derivative, and by
// about 2^-53 / e times the loss of rounding: with e = 1e-4 and losses near 20 that is 1e-17 of the
// one and 2e-11. Norms of small rows have fifth derivatives of up to 1e9 times the gradient, hence
// 1e-8 of the largest gradient of the tensor; a wrong term shows as 1e-2.
constexpr double kStep = 1e-4;
constexpr double kModelGradientBound = 1e-8;
// Keys of three elements that are divided by their length bend more, and so do a softmax of heads
// of different sizes and a scan with factors above 1: the error is 40 times less.
constexpr double kShortStep = 4e-5;
// The part of the error that rounding makes, times the step.
constexpr double kLossRounding = 8e-15;

struct Fixture {
  explicit Fixture(const ModelOptions& options)
      : model(make_model(options)),
        parameters(*model, runtime, 7, DType::fp64, DType::fp64),
        batch(model->make_batch(runtime, 3, 0, 2, 0.3)) {
    // Larger than trained weights are at the start, so that no term is too small to be seen, and
    // biases and norms away from their special values 0 and 1.
    for (int i = 0; i < parameters.size(); ++i) {
      const Tensor weight = parameters.weight(i);
      for (std::int64_t j = 0; j < weight.numel(); ++j) {
        weight.set(j, weight.get(j) * 5.0 + 0.1 * std::sin(static_cast<double>(7 * i + j)));
      }
    }
    batch.loss_scale = 0.5;
  }

  double scaled_loss() {
    std::vector<Saved> saved;
    return batch.loss_scale *
           test::joined_loss(*model, run_forward(*model, runtime, parameters, batch, saved));
  }

  LocalRuntime runtime;
  std::unique_ptr<Model> model;
  test::WholeParameters parameters;
  Batch batch;
};

}  // namespace

TEST_CASE("M7: every gradient of every model equals the central difference of its loss") {
  for (const char* name : test::with_block_shapes({"mlp",
                                                   "gpt2",
                                                   "untied gpt2",
                                                   "llama",
                                                   "tied llama",
                                                   "gpt2 dropping",
                                                   "llama dropping",
                                                   "llama of today",
                                                   "llama without norm weights",
                                                   "llama with growing queries",
                                                   "latent llama",
                                                   "llama with a latent of keys",
                                                   "llama of wide values",
                                                   "predicting llama",
                                                   "tied predicting llama",
                                                   "delta hybrid",
                                                   "mamba hybrid",
                                                   "parallel hybrid",
                                                   "scaled hybrid",
                                                   "scaled parallel llama",
                                                   "llama of unlike heads",
                                                   "llama of keys as values",
                                                   "llama of normed values",
                                                   "llama with gates of heads"})) {
    Fixture fixture(test::small_model(name));
    const std::string_view named = name;
    const bool bends =
        named == "delta hybrid" || named == "llama of unlike heads" || named == "scaled hybrid";
    const double step = bends ? kShortStep : kStep;
    std::vector<Saved> saved;
    (void)run_forward(*fixture.model, fixture.runtime, fixture.parameters, fixture.batch, saved);
    test::run_backward(*fixture.model, fixture.runtime, fixture.parameters, fixture.batch, saved);
    for (int i = 0; i < fixture.parameters.size(); ++i) {
      const Tensor weight = fixture.parameters.weight(i);
      const Tensor gradient = fixture.parameters.gradient(i);
      double worst = 0.0;
      double largest = 0.0;
      for (std::int64_t j = 0; j < weight.numel(); ++j) {
        const double value = weight.get(j);
        const auto loss_at = [&](double offset) {
          weight.set(j, value + offset);
          return fixture.scaled_loss();
        };
        const double near = loss_at(step) - loss_at(-step);
        const double far = loss_at(2 * step) - loss_at(-2 * step);
        weight.set(j, value);
        const double quotient = (8.0 * near - far) / (12.0 * step);
        worst = std::max(worst, std::fabs(quotient - gradient.get(j)));
        largest = std::max(largest, std::fabs(quotient));
      }
      CAPTURE(name, fixture.model->parameters()[static_cast<std::size_t>(i)].name, largest);
      CHECK(worst < kModelGradientBound * largest + kLossRounding / step);
      CHECK(largest > 1e-3);  // Otherwise the comparison would say nothing.
    }
  }
}
