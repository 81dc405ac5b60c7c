#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include <catch2/catch.hpp>

#include "strategies/checkpoint/manifest.hpp"
#include "strategies/model/causal_convolution.hpp"
#include "strategies/model/delta_rule.hpp"
#include "strategies/model/gated_norm.hpp"
#include "strategies/model/state_space.hpp"

#include "tests/strategies/layer_fixture.hpp"

// M14 for layers of linear attention between their projections: convolution, recurrence and gated
// norm against PyTorch. tests/reference/golden_linear.py made the file.
namespace shardsim::test {
namespace {

constexpr std::int64_t kGoldenSamples = 2;
constexpr std::int64_t kGoldenLength = 11;

LocalRuntime golden_runtime;

// Vectors of one layer by name.
using GoldenLayer = std::map<std::string, Tensor>;

GoldenLayer golden_layer(const std::string& layer) {
  std::ifstream file("tests/reference/golden_linear.safetensors", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  REQUIRE(text.size() > 8);
  std::uint64_t length = 0;
  std::memcpy(&length, text.data(), 8);
  GoldenLayer golden;
  for (const PayloadEntry& entry : parse_payload_header(text.substr(8, length))) {
    if (!entry.name.starts_with(layer + "/")) continue;
    const Tensor tensor = zeros(Shape{entry.shape.at(0)});
    std::memcpy(tensor.wire_data(), text.data() + 8 + length + entry.begin,
                to_size(entry.end - entry.begin));
    golden[entry.name.substr(layer.size() + 1)] = tensor;
  }
  return golden;
}

// Both compute in fp64, but in other orders. Errors are relative to the largest value of their
// kind, as in golden_test.py.
void check_golden(const char* what, const Tensor& actual, const Tensor& expected) {
  CAPTURE(what);
  double largest = 0.0;
  for (const double value : values_of(expected)) largest = std::max(largest, std::abs(value));
  CHECK(max_difference(actual, expected) < 1e-12 * largest);
}

Tensor zeros_of(const Tensor& tensor) { return zeros(tensor.shape()); }

Tensor golden_rows(const Tensor& vector, std::int64_t width) {
  return vector.view(0, {kGoldenSamples, kGoldenLength, width});
}

}  // namespace

TEST_CASE("M14: gated DeltaNet between its projections is PyTorch's") {
  const GoldenLayer golden = golden_layer("delta");
  // Columns: q 8, k 8, v 12, z 12, beta' 4, a 4.
  const Tensor projected = golden_rows(golden.at("projected"), 48);
  const Tensor d_projected = zeros_of(projected);
  const CausalConvolution convolution{kGoldenLength, golden.at("convolution").view(0, {28, 4}), {}};
  const Tensor y = causal_convolution_forward(golden_runtime, convolution, {projected, 0, 28});
  const Tensor d_convolved = zeros_of(y);
  for (const std::int64_t chunk : {4, 64}) {
    CAPTURE(chunk);
    const DeltaRuleShape shape{kGoldenSamples, kGoldenLength, 2, 4, 4, 3, chunk};
    const Tensor d_weight = zeros_of(convolution.weight);
    const Tensor d_norm = zeros({3});
    const DeltaRuleInput input{{y, 0, 8},           {y, 8, 8},          {y, 16, 12},
                               {projected, 40, 4},  {projected, 44, 4}, golden.at("A_log"),
                               golden.at("dt_bias")};
    const DeltaRuleInput gradient{{d_convolved, 0, 8},
                                  {d_convolved, 8, 8},
                                  {d_convolved, 16, 12},
                                  {d_projected, 40, 4},
                                  {d_projected, 44, 4},
                                  zeros({4}),
                                  zeros({4})};
    const GatedNorm norm{golden.at("norm"), 3, 1e-6, false};
    const Columns z{projected, 28, 12};
    const DeltaRuleOutput out = delta_rule_forward(golden_runtime, shape, input);
    const GatedNormOutput normed = gated_norm_forward(golden_runtime, norm, out.o, z);
    const Tensor d_o =
        gated_norm_backward(golden_runtime, norm, out.o, z, normed.statistics,
                            golden_rows(golden.at("dy"), 12), {d_projected, 28, 12}, d_norm);
    delta_rule_backward(golden_runtime, shape, input, out, d_o, gradient);
    causal_convolution_backward(golden_runtime, convolution, {projected, 0, 28}, d_convolved,
                                {{d_projected, 0, 28}, d_weight, {}});
    check_golden("y", normed.y, golden.at("y"));
    check_golden("projected", d_projected, golden.at("d_projected"));
    check_golden("convolution", d_weight, golden.at("d_convolution"));
    check_golden("A_log", gradient.a_log, golden.at("d_A_log"));
    check_golden("dt_bias", gradient.dt_bias, golden.at("d_dt_bias"));
    check_golden("norm", d_norm, golden.at("d_norm"));
  }
}

TEST_CASE("M14: Mamba-2 between its projections is PyTorch's") {
  const GoldenLayer golden = golden_layer("mamba");
  // Columns: z 12, x 12, B 8, C 8, dt' 4.
  const Tensor projected = golden_rows(golden.at("projected"), 44);
  const Tensor d_projected = zeros_of(projected);
  const CausalConvolution convolution{kGoldenLength, golden.at("convolution").view(0, {28, 4}),
                                      golden.at("bias")};
  const Tensor y = causal_convolution_forward(golden_runtime, convolution, {projected, 12, 28});
  const Tensor d_convolved = zeros_of(y);
  for (const std::int64_t chunk : {4, 128}) {
    CAPTURE(chunk);
    const StateSpaceShape shape{kGoldenSamples, kGoldenLength, 4, 3, 2, 4, chunk};
    const Tensor d_weight = zeros_of(convolution.weight);
    const Tensor d_bias = zeros({28});
    const Tensor d_norm = zeros({12});
    const StateSpaceInput input{{y, 0, 12},         {y, 12, 8},         {y, 20, 8},
                                {projected, 40, 4}, golden.at("A_log"), golden.at("dt_bias"),
                                golden.at("D")};
    const StateSpaceInput gradient{{d_convolved, 0, 12},
                                   {d_convolved, 12, 8},
                                   {d_convolved, 20, 8},
                                   {d_projected, 40, 4},
                                   zeros({4}),
                                   zeros({4}),
                                   zeros({4})};
    const GatedNorm norm{golden.at("norm"), 6, 1e-5, true};
    const Columns z{projected, 0, 12};
    const Tensor o = state_space_forward(golden_runtime, shape, input);
    const GatedNormOutput normed = gated_norm_forward(golden_runtime, norm, o, z);
    const Tensor d_o =
        gated_norm_backward(golden_runtime, norm, o, z, normed.statistics,
                            golden_rows(golden.at("dy"), 12), {d_projected, 0, 12}, d_norm);
    state_space_backward(golden_runtime, shape, input, d_o, gradient);
    causal_convolution_backward(golden_runtime, convolution, {projected, 12, 28}, d_convolved,
                                {{d_projected, 12, 28}, d_weight, d_bias});
    check_golden("y", normed.y, golden.at("y"));
    check_golden("projected", d_projected, golden.at("d_projected"));
    check_golden("convolution", d_weight, golden.at("d_convolution"));
    check_golden("bias", d_bias, golden.at("d_bias"));
    check_golden("A_log", gradient.a_log, golden.at("d_A_log"));
    check_golden("dt_bias", gradient.dt_bias, golden.at("d_dt_bias"));
    check_golden("D", gradient.d_skip, golden.at("d_D"));
    check_golden("norm", d_norm, golden.at("d_norm"));
  }
}

}  // namespace shardsim::test
