#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "strategies/model/activation.hpp"

#include "tests/strategies/layer_fixture.hpp"
#include "tests/strategies/model_fixture.hpp"

// Which elements dropout drops: a function of seed, site and place in the data set alone.
namespace shardsim::test {
namespace {

constexpr std::int64_t kWidth = 50;

std::vector<double> mask_of(const Dropout& dropout, const DropoutSite& site,
                            std::int64_t first_row = 0, std::int64_t rows = 200) {
  LocalRuntime runtime;
  const Tensor y = zeros({rows, kWidth});
  for (std::int64_t i = 0; i < y.numel(); ++i) y.set(i, 1.0);
  dropout_forward(runtime, dropout, site, first_row, y);
  std::vector<double> values(static_cast<std::size_t>(y.numel()));
  load(y, values);
  return values;
}

}  // namespace

TEST_CASE("the share of its rate is dropped, the others are scaled so that the mean stays") {
  const std::vector<double> mask = mask_of({.rate = 0.25, .seed = 5}, {0, "mlp"});
  int dropped = 0;
  for (const double value : mask) {
    if (value == 0.0) {
      ++dropped;
    } else {
      CHECK(value == 1.0 / 0.75);
    }
  }
  CHECK(std::abs(dropped - 2500) < 217);  // From 10000; five deviations of 43.3.
}

TEST_CASE("shards and microbatches drop what the whole drops, sites and samples differ") {
  const Dropout dropout{.rate = 0.5, .seed = 5, .first_token = 40};
  const DropoutSite site{3, "attention"};
  const std::vector<double> whole = mask_of(dropout, site, 0, 20);
  for (const std::int64_t first : {0, 5, 15}) {
    const std::vector<double> part(whole.begin() + first * kWidth,
                                   whole.begin() + (first + 5) * kWidth);
    CHECK(mask_of(dropout, site, first, 5) == part);
    CHECK(mask_of({0.5, 5, 40 + first}, site, 0, 5) == part);
  }
  CHECK(mask_of(dropout, {2, "attention"}, 0, 20) != whole);
  CHECK(mask_of(dropout, {3, "mlp"}, 0, 20) != whole);
  CHECK(mask_of({0.5, 6, 40}, site, 0, 20) != whole);
  CHECK(mask_of({0.5, 5, 60}, site, 0, 20) != whole);
}

TEST_CASE("backward passes on what forward kept, and leaves the residual's gradient alone") {
  LocalRuntime runtime;
  const Dropout dropout{.rate = 0.25, .seed = 5};
  const Tensor dy = zeros({4, kWidth});
  for (std::int64_t i = 0; i < dy.numel(); ++i) dy.set(i, 1.0);
  const Tensor dx = dropout_backward(runtime, dropout, {0, "mlp"}, 0, dy);
  const std::vector<double> mask = mask_of(dropout, {0, "mlp"}, 0, 4);
  for (std::int64_t i = 0; i < dx.numel(); ++i) {
    CHECK(dx.get(i) == mask[static_cast<std::size_t>(i)]);
    CHECK(dy.get(i) == 1.0);
  }
}

TEST_CASE("without dropout there is no operation and no copy") {
  LocalRuntime runtime;
  const Tensor dy = zeros({4, kWidth});
  const Tensor dx = dropout_backward(runtime, {}, {0, "mlp"}, 0, dy);
  CHECK(dx.data() == dy.data());
}

TEST_CASE("a stage between the first and the last must be told its samples, not its data") {
  const auto model = make_model(small_model("gpt2 dropping"));
  LocalRuntime runtime;
  WholeParameters parameters(*model, runtime, 5, DType::fp64, DType::fp64);
  const Tensor x = random_tensor("x", model->activation_shape(2));
  const auto output = [&](const Batch& batch) {
    Saved saved;
    return model->forward(1, {runtime, parameters}, x, batch, saved);
  };
  const Tensor expected = output(model->make_batch(runtime, 9, 6, 2, 0.0));
  Batch told;
  told.seed = 9;
  told.first_sample = 6;
  CHECK(max_difference(output(told), expected) == 0.0);
  told.first_sample = 7;
  CHECK(max_difference(output(told), expected) > 0.0);
  try {
    (void)output(Batch());
    FAIL("ran");
  } catch (const UsageError& error) {
    CHECK(error.code() == "E0640");
  }
}

TEST_CASE("rates outside of [0, 1) are refused, and any for a perceptron") {
  const auto code = [](ModelOptions options, double rate) {
    options.hidden_dropout = rate;
    try {
      (void)make_model(options);
    } catch (const UsageError& error) {
      return error.code();
    }
    return std::string("none");
  };
  CHECK(code(small_model("gpt2"), 0.999) == "none");
  CHECK(code(small_model("gpt2"), 1.0) == "E0638");
  CHECK(code(small_model("gpt2"), -0.1) == "E0638");
  CHECK(code(small_model("mlp"), 0.1) == "E0639");
  CHECK(code(small_model("mlp"), 0.0) == "none");
}

}  // namespace shardsim::test
