#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include <catch2/catch.hpp>
#include <rapidcheck/catch.h>

#include "tests/strategies/layer_fixture.hpp"
#include "tests/strategies/model_fixture.hpp"
#include "tests/strategies/recording_runtime.hpp"

// Strategies rely on this: samples may be split over ranks and microbatches, and tensors may have
// no data. Gradients are reported once each and in order, and nothing is kept after backward.
using namespace shardsim;
using namespace shardsim::test;

namespace {

// Gradients of samples [0, total), accumulated over microbatches of the given sizes.
struct Accumulated {
  std::vector<Tensor> gradients;
  double loss = 0.0;
};

Accumulated accumulate(const Model& model, DType dtype, const std::vector<std::int64_t>& sizes) {
  LocalRuntime runtime;
  WholeParameters parameters(model, runtime, 5, dtype, DType::fp64);
  Accumulated result;
  std::int64_t first = 0;
  for (const std::int64_t size : sizes) {
    Batch batch = model.make_batch(runtime, 9, first, size, 0.25);
    batch.loss_scale = 0.125;
    std::vector<Saved> saved;
    result.loss += joined_loss(model, run_forward(model, runtime, parameters, batch, saved));
    run_backward(model, runtime, parameters, batch, saved);
    first += size;
  }
  for (int i = 0; i < parameters.size(); ++i) result.gradients.push_back(parameters.gradient(i));
  return result;
}

double largest(const Tensor& tensor) { return max_difference(tensor, zeros(tensor.shape())); }

}  // namespace

TEST_CASE("any partition of a batch gives the same sum of gradients, with dropout as well") {
  std::vector<const char*> names = kSmallModels;
  names.insert(names.end(), {"gpt2 dropping", "llama dropping", "delta hybrid", "mamba hybrid"});
  names.insert(names.end(), kHeadsOfLayers.begin(), kHeadsOfLayers.end());
  for (const char* name : names) {
    const auto model = make_model(small_model(name));
    const Accumulated whole = accumulate(*model, DType::fp64, {4});
    for (const auto& sizes : {std::vector<std::int64_t>{2, 2}, {1, 3}, {1, 1, 1, 1}}) {
      const Accumulated parts = accumulate(*model, DType::fp64, sizes);
      CAPTURE(name, sizes.size());
      // Sums of some hundred products in another order: a few hundred roundings of 1e-16.
      CHECK(parts.loss == Approx(whole.loss).epsilon(1e-12));
      for (std::size_t i = 0; i < whole.gradients.size(); ++i) {
        CHECK(max_difference(parts.gradients[i], whole.gradients[i]) <=
              1e-12 * std::max(1.0, largest(whole.gradients[i])));
      }
    }
  }
}

TEST_CASE("on whole numbers any partition of a batch gives bitwise the same gradients") {
  rc::prop("integer mlp", [] {
    ModelOptions options = small_model("integer mlp");
    options.num_layers = *rc::gen::inRange<std::int64_t>(1, 4);
    const auto model = make_model(options);
    std::vector<std::int64_t> sizes;
    for (std::int64_t left = 12; left > 0; left -= sizes.back()) {
      sizes.push_back(*rc::gen::inRange<std::int64_t>(1, left + 1));
    }
    const Accumulated whole = accumulate(*model, DType::fp64, {12});
    const Accumulated parts = accumulate(*model, DType::fp64, sizes);
    RC_ASSERT(parts.loss == whole.loss);
    for (std::size_t i = 0; i < whole.gradients.size(); ++i) {
      RC_ASSERT(max_difference(parts.gradients[i], whole.gradients[i]) == 0.0);
      RC_ASSERT(largest(whole.gradients[i]) > 0.0);
      // Multiples of the scale, hence exact.
      const double value = whole.gradients[i].get(0) * 8.0;
      RC_ASSERT(value == std::floor(value));
    }
  });
}

TEST_CASE("operations and allocations are the same with and without data") {
  for (const char* name : kSmallModels) {
    for (const DType dtype : {DType::fp64, DType::bf16}) {
      const auto model = make_model(small_model(name, dtype));
      RecordingRuntime real(true);
      RecordingRuntime meta(false);
      for (RecordingRuntime* runtime : {&real, &meta}) {
        WholeParameters parameters(*model, *runtime, 5, dtype, dtype);
        const Batch batch = model->make_batch(*runtime, 1, 0, 2, 0.5);
        std::vector<Saved> saved;
        const Tensor loss = run_forward(*model, *runtime, parameters, batch, saved);
        CHECK(loss.dtype() == DType::fp64);
        run_backward(*model, *runtime, parameters, batch, saved);
      }
      CAPTURE(name);
      CHECK(real.ops().size() > 10);
      CHECK(real.record() == meta.record());
    }
  }
}

TEST_CASE("in 16 bits a model stays near its fp64 self") {
  for (const char* name : {"mlp", "gpt2", "llama"}) {
    const Accumulated wide = accumulate(*make_model(small_model(name)), DType::fp64, {4});
    const Accumulated narrow =
        accumulate(*make_model(small_model(name, DType::bf16)), DType::bf16, {4});
    CAPTURE(name);
    // bf16 has 8 bits: some tens of roundings of 2^-9 each.
    CHECK(narrow.loss == Approx(wide.loss).epsilon(0.05));
    CHECK(narrow.loss != wide.loss);
  }
}

TEST_CASE("each gradient is reported once, in reverse order of the table") {
  for (const char* name : kSmallModels) {
    const auto model = make_model(small_model(name));
    LocalRuntime runtime;
    WholeParameters parameters(*model, runtime, 5, DType::fp64, DType::fp64);
    const Batch batch = model->make_batch(runtime, 1, 0, 2, 0.0);
    std::vector<Saved> saved;
    (void)run_forward(*model, runtime, parameters, batch, saved);
    run_backward(*model, runtime, parameters, batch, saved);
    std::vector<int> expected(model->parameters().size());
    std::iota(expected.rbegin(), expected.rend(), 0);
    // A depth's final norm stands before its block, since experts would end the depth's unit.
    const auto is_ahead = [&](int index) {
      return model->parameters()[static_cast<std::size_t>(index)].name.starts_with("mtp.");
    };
    for (auto at = expected.begin(); at != expected.end(); ++at) {
      const std::string& full = model->parameters()[static_cast<std::size_t>(*at)].name;
      if (!is_ahead(*at) || !full.ends_with(".final_norm")) continue;
      const std::string depth = full.substr(0, full.rfind('.') + 1);
      const auto first = std::find_if(expected.begin(), at, [&](int index) {
        return model->parameters()[static_cast<std::size_t>(index)].name.starts_with(depth);
      });
      std::rotate(first, at, at + 1);
    }
    CAPTURE(name);
    if (small_model(name).tied_embeddings) {
      // The final norm, last in the root unit, is done first of all but those of other depths.
      const ParameterUnit root = model->units()[0];
      const auto last_depth =
          std::find_if_not(parameters.ready().begin(), parameters.ready().end(), is_ahead);
      CHECK(*last_depth == root.count - 1);
      CHECK(parameters.ready().back() == 0);
      CHECK(std::is_permutation(expected.begin(), expected.end(), parameters.ready().begin(),
                                parameters.ready().end()));
    } else {
      CHECK(parameters.ready() == expected);
    }
  }
}

namespace {

// Hands out each gradient as an allocation of its own and drops it when it is reported, as sharded
// strategies do; counts how many bytes somebody else still holds then.
class DroppingParameters final : public Parameters {
 public:
  DroppingParameters(const Model& model, RecordingRuntime& runtime)
      : model_(model), runtime_(runtime), gradients_(model.parameters().size()) {}

  [[nodiscard]] Tensor weight(int index) override {
    return allocate(MemoryCategory::params, index);
  }
  [[nodiscard]] Tensor gradient(int index) override {
    Tensor& gradient = gradients_[static_cast<std::size_t>(index)];
    if (!gradient.defined()) gradient = allocate(MemoryCategory::grads, index);
    return gradient;
  }
  void gradient_ready(int index) override {
    const std::int64_t before = bytes(MemoryCategory::grads);
    Tensor& gradient = gradients_[static_cast<std::size_t>(index)];
    const std::int64_t expected = gradient.num_bytes();
    gradient = {};
    held_ += expected - (before - bytes(MemoryCategory::grads));
    held_ += bytes(MemoryCategory::params);
  }
  [[nodiscard]] std::int64_t held() const { return held_; }

 private:
  [[nodiscard]] Tensor allocate(MemoryCategory category, int index) {
    const ParameterSpec& spec = model_.parameters()[static_cast<std::size_t>(index)];
    return runtime_.allocate(category, spec.shape, DType::bf16);
  }
  [[nodiscard]] std::int64_t bytes(MemoryCategory category) {
    return runtime_.ledger()->now(category);
  }

  const Model& model_;
  RecordingRuntime& runtime_;
  std::vector<Tensor> gradients_;
  std::int64_t held_ = 0;
};

}  // namespace

TEST_CASE("a model holds on to no weight or gradient when it reports one") {
  for (const char* name : kSmallModels) {
    const auto model = make_model(small_model(name, DType::bf16));
    RecordingRuntime runtime(false);
    DroppingParameters parameters(*model, runtime);
    const Batch batch = model->make_batch(runtime, 1, 0, 2, 0.0);
    std::vector<Saved> saved;
    (void)run_forward(*model, runtime, parameters, batch, saved);
    run_backward(*model, runtime, parameters, batch, saved);
    CAPTURE(name);
    CHECK(parameters.held() == 0);
    CHECK(runtime.ledger()->now(MemoryCategory::grads) == 0);
  }
}

namespace {

// Backward ends with it.
int first_reader(const Model& model, int parameter) {
  for (int module = 0; module < model.num_modules(); ++module) {
    const std::span<const int> read = model.parameters_of(module);
    if (std::find(read.begin(), read.end(), parameter) != read.end()) return module;
  }
  return -1;
}

}  // namespace

TEST_CASE("a module's gradients are all reported by the time its backward returns") {
  for (const char* name : kSmallModels) {
    const auto model = make_model(small_model(name));
    LocalRuntime runtime;
    WholeParameters parameters(*model, runtime, 5, DType::fp64, DType::fp64);
    const Batch batch = model->make_batch(runtime, 1, 0, 2, 0.0);
    std::vector<Saved> saved;
    (void)run_forward(*model, runtime, parameters, batch, saved);
    Tensor d;
    std::size_t finished = 0;
    for (int module = model->num_modules() - 1; module >= 0; --module) {
      Saved& kept = saved[static_cast<std::size_t>(module)];
      d = model->backward(module, {runtime, parameters}, d, batch, kept);
      for (; finished < parameters.ready().size(); ++finished) {
        CHECK(first_reader(*model, parameters.ready()[finished]) == module);
      }
      CHECK(kept.empty());
    }
    CHECK(!d.defined());
    CHECK(finished == model->parameters().size());
  }
}

namespace {

// Notes which parameters are asked for.
class NotingParameters final : public Parameters {
 public:
  explicit NotingParameters(Parameters& inner) : inner_(inner) {}
  [[nodiscard]] Tensor weight(int index) override {
    read_.insert(index);
    return inner_.weight(index);
  }
  [[nodiscard]] Tensor gradient(int index) override { return inner_.gradient(index); }
  void gradient_ready(int index) override { inner_.gradient_ready(index); }

  /// Since the last call.
  std::vector<int> take() {
    std::vector<int> taken(read_.begin(), read_.end());
    read_.clear();
    return taken;
  }

 private:
  Parameters& inner_;
  std::set<int> read_;
};

}  // namespace

TEST_CASE("what a module reads and hands on is what the model says of it") {
  for (const char* name : kSmallModels) {
    const auto model = make_model(small_model(name, DType::bf16));
    LocalRuntime runtime;
    WholeParameters parameters(*model, runtime, 5, DType::bf16, DType::fp32);
    NotingParameters noting(parameters);
    const Batch batch = model->make_batch(runtime, 1, 0, 3, 0.0);
    Tensor activation;
    for (int module = 0; module < model->num_modules(); ++module) {
      Saved saved;
      activation = model->forward(module, {runtime, noting}, activation, batch, saved);
      CAPTURE(name, module);
      const std::span<const int> stated = model->parameters_of(module);
      CHECK(noting.take() == std::vector<int>(stated.begin(), stated.end()));
      if (module + 1 == model->num_modules()) continue;
      CHECK(activation.shape() == model->activation_shape(3));
      CHECK(activation.dtype() == model->dtype());
    }
  }
}
