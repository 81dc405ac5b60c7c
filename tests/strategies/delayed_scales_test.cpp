#include "strategies/model/delayed_scales.hpp"

#include <algorithm>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/model/quantized_data.hpp"

#include "tests/strategies/expert_layer_fixture.hpp"
#include "tests/strategies/quantized_definition.hpp"
#include "tests/strategies/recording_runtime.hpp"

// Scales from the past: K2 for `delayed`.
namespace shardsim::test {
namespace {

LowPrecision delayed(std::int64_t length, AmaxCompute compute,
                     AmaxUpdate update = AmaxUpdate::step) {
  return {.recipe = ScalingRecipe::delayed,
          .amax_history_len = length,
          .amax_compute = compute,
          .amax_update = update};
}

ModelOptions with_delayed(ModelOptions options) {
  options.low.recipe = ScalingRecipe::delayed;
  return options;
}

// The factor of e4m3 or e5m2 for a tensor with this largest element.
float factor_of(float largest, OperandKind kind) {
  return (kind == OperandKind::gradient ? 57344.0F : 448.0F) / largest;
}

constexpr std::array kKinds = {OperandKind::input, OperandKind::weight, OperandKind::gradient};

}  // namespace

TEST_CASE("K2: a scale is that of the last step, or of the largest of several") {
  const auto model = make_model(with_delayed(small_model("llama")));
  const std::vector<float> seen = {3.0F, 10.0F, 0.0F, 2.0F, 1.0F, 0.5F};
  for (const AmaxCompute compute : {AmaxCompute::most_recent, AmaxCompute::max}) {
    for (const std::int64_t length : {1, 3}) {
      RecordingRuntime runtime(true);
      DelayedScales scales(delayed(length, compute));
      scales.begin(runtime, model->parameters());
      for (const OperandKind kind : kKinds) CHECK(scales.multiplier({4, kind}, 0) == 1.0F);
      float expected = 0.0F;
      for (std::size_t step = 0; step < seen.size(); ++step) {
        for (const OperandKind kind : kKinds) {
          scales.saw({4, kind}, 0, seen[step]);
          scales.saw({4, kind}, 0, seen[step] / 2.0F);  // Another microbatch's.
        }
        scales.finish(runtime, AmaxEnd::step, 0, {}, {});
        const bool takes_all = compute == AmaxCompute::max;
        const std::size_t reach = takes_all ? static_cast<std::size_t>(length) : 1;
        const std::size_t first = step + 1 > reach ? step + 1 - reach : 0;
        const float most = *std::max_element(seen.begin() + static_cast<std::ptrdiff_t>(first),
                                             seen.begin() + static_cast<std::ptrdiff_t>(step + 1));
        if (most > 0.0F) expected = most;  // Zeros leave the scale as it is.
        for (const OperandKind kind : kKinds) {
          CAPTURE(step, length, takes_all);
          CHECK(scales.multiplier({4, kind}, 0) == factor_of(expected, kind));
        }
        CHECK(scales.multiplier({5, OperandKind::input}, 0) == 1.0F);  // It was never seen.
      }
    }
  }
}

TEST_CASE("with each microbatch scales of inputs and gradients change apart, weights by step") {
  const auto model = make_model(with_delayed(small_model("llama")));
  RecordingRuntime runtime(true);
  DelayedScales scales(delayed(1, AmaxCompute::most_recent, AmaxUpdate::microbatch));
  scales.begin(runtime, model->parameters());
  for (const OperandKind kind : kKinds) scales.saw({4, kind}, 0, 7.0F);
  const auto changed = [&] {
    std::vector<bool> all;
    for (const OperandKind kind : kKinds) all.push_back(scales.multiplier({4, kind}, 0) != 1.0F);
    return all;
  };
  scales.finish(runtime, AmaxEnd::forward, 1, {}, {});  // Another model chunk's.
  CHECK(changed() == std::vector<bool>{false, false, false});
  scales.finish(runtime, AmaxEnd::forward, 0, {}, {});
  CHECK(changed() == std::vector<bool>{true, false, false});
  scales.finish(runtime, AmaxEnd::backward, 0, {}, {});
  CHECK(changed() == std::vector<bool>{true, false, true});
  scales.finish(runtime, AmaxEnd::step, 0, {}, {});
  CHECK(changed() == std::vector<bool>{true, true, true});
}

TEST_CASE("each expert has scales of its own") {
  const auto model =
      make_model(with_delayed(model_with_experts(some_experts(RoutingKind::uniform, 2))));
  RecordingRuntime runtime(true);
  DelayedScales scales(delayed(1, AmaxCompute::most_recent));
  scales.begin(runtime, model->parameters());
  const auto parameters = model->parameters();
  const auto expert = std::ranges::find_if(
      parameters, [](const ParameterSpec& spec) { return spec.expert && spec.shape.rank() == 3; });
  const OperandSite site{static_cast<int>(expert - parameters.begin()), OperandKind::input};
  REQUIRE(scales.num_matrices(site) == 5);
  for (std::int64_t i = 0; i < 5; ++i) scales.saw(site, i, static_cast<float>(i + 1));
  scales.finish(runtime, AmaxEnd::step, 0, {}, {});
  for (std::int64_t i = 0; i < 5; ++i) {
    CHECK(scales.multiplier(site, i) == factor_of(static_cast<float>(i + 1), site.kind));
  }
}

TEST_CASE("a tensor is cast by its past and seen for the next step") {
  const auto model = make_model(with_delayed(small_model("llama")));
  RecordingRuntime runtime(true);
  const LowPrecision low = delayed(1, AmaxCompute::most_recent);
  DelayedScales scales(low);
  scales.begin(runtime, model->parameters());
  const OperandSite site{4, OperandKind::input};
  RowMatrix x = RowMatrix::Zero(2, 3);
  x << 1.0, -600.0, 0.25, 3.0, 0.0, 448.0;
  const auto cast = [&] {
    const QuantizedTensor made = quantize(runtime, low, tensor_of(runtime, x), Copies::rows,
                                          {.site = site, .delayed = &scales});
    return decode(made.rows, {row_of(low.recipe), kE4m3, false, CopyDirection::rows}, 2, 3);
  };
  RowMatrix saturated = x;
  saturated(0, 1) = -448.0;
  CHECK(cast() == saturated);
  CHECK(cast() == saturated);  // Another microbatch changes nothing yet.
  scales.finish(runtime, AmaxEnd::step, 0, {}, {});
  const RowMatrix scaled = cast();
  CHECK(std::fabs(scaled(0, 1) + 600.0) < 1e-3);  // The largest element of the last step fits.
  CHECK(scaled(1, 2) != 448.0);
}

}  // namespace shardsim::test
