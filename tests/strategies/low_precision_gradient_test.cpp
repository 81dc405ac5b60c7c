#include <cmath>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/strategies/expert_layer_fixture.hpp"
#include "tests/strategies/model_fixture.hpp"
#include "tests/strategies/recording_runtime.hpp"

// Gradients of models whose products are in 8 bits, beside those in fp64. The oracle quantizes by
// the code that it checks, so it would not see a factor that backward forgets.
namespace shardsim::test {
namespace {

std::vector<std::vector<double>> gradients_of(const ModelOptions& options) {
  const auto model = make_model(options);
  RecordingRuntime runtime(true);
  WholeParameters parameters(*model, runtime, 5, DType::fp64, DType::fp64);
  const Batch batch = model->make_batch(runtime, 1, 0, 2, 0.0);
  std::vector<Saved> saved(static_cast<std::size_t>(model->num_modules()));
  ModelContext context{runtime, parameters};
  context.quantizes_at_use = true;
  Tensor x;
  for (int module = 0; module < model->num_modules(); ++module) {
    x = model->forward(module, context, x, batch, saved[static_cast<std::size_t>(module)]);
  }
  Tensor dy;
  for (int module = model->num_modules() - 1; module >= 0; --module) {
    dy = model->backward(module, context, dy, batch, saved[static_cast<std::size_t>(module)]);
  }
  std::vector<std::vector<double>> gradients;
  for (int i = 0; i < static_cast<int>(model->parameters().size()); ++i) {
    gradients.push_back(values_of(parameters.gradient(i)));
  }
  return gradients;
}

double norm_of(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

ModelOptions model_of(const std::string& name) {
  if (name != "experts") return small_model(name);
  // Rounding does not change a declared choice.
  return model_with_experts(some_experts(RoutingKind::uniform, 2));
}

}  // namespace

// Rounding to 3 bits of mantissa (values) and 2 (gradients) is off by 2^-4 and 2^-3 at most; a
// factor of 2 that is lost, or a product that is left out, by as much as the gradient.
TEST_CASE("gradients in 8 bits are those in fp64, up to rounding") {
  constexpr double kMost = 0.5;
  for (const char* name : {"llama", "gpt2", "latent llama", "llama with a latent of keys",
                           "predicting llama", "delta hybrid", "mamba hybrid",
                           "llama of wide values", "llama of keys as values", "experts"}) {
    ModelOptions options = model_of(name);
    const auto exact = gradients_of(options);
    for (const bool transposes : {false, true}) {
      options.low = {.recipe = ScalingRecipe::tensorwise, .needs_transposes = transposes};
      const auto low = gradients_of(options);
      const auto model = make_model(options);
      REQUIRE(low.size() == exact.size());
      for (std::size_t i = 0; i < low.size(); ++i) {
        INFO(name << ": " << model->parameters()[i].name);
        std::vector<double> difference = low[i];
        for (std::size_t j = 0; j < difference.size(); ++j) difference[j] -= exact[i][j];
        CHECK(norm_of(difference) <= kMost * norm_of(exact[i]));
        CHECK(norm_of(low[i]) > 0.0);
      }
    }
  }
}

}  // namespace shardsim::test
