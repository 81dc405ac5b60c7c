#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <catch2/catch.hpp>

#include "strategies/model/make_model.hpp"

#include "tests/strategies/recording_runtime.hpp"
#include "tests/strategies/tensor_parallel_fixture.hpp"

// One block on a device that writes down what it is asked for, for tests of formulas.
namespace shardsim::test {

/// A block's forward and backward.
struct BlockPass {
  BlockPass(const ModelOptions& options, std::int64_t samples, int block = 0, bool has_data = false)
      : runtime(has_data), model(make_model(options)) {
    const int module = 1 + block;  // Behind the embedding.
    WholeParameters parameters(*model, runtime, 0, options.dtype, options.dtype);
    const Batch batch = model->make_batch(runtime, 0, 0, samples, 0.0);
    const Shape shape = model->activation_shape(samples);
    const Tensor x = runtime.allocate(MemoryCategory::activations, shape, options.dtype);
    const Tensor dy = runtime.allocate(MemoryCategory::activations, shape, options.dtype);
    const std::int64_t before = runtime.activation_bytes();
    Saved saved;
    Tensor y = model->forward(module, {runtime, parameters}, x, batch, saved);
    y = {};
    kept = runtime.activation_bytes() - before;
    num_forward = runtime.ops().size();
    static_cast<void>(model->backward(module, {runtime, parameters}, dy, batch, saved));
    CHECK(runtime.activation_bytes() == before);
  }
  /// In forward, or in backward.
  [[nodiscard]] std::int64_t flops(bool is_forward) const {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < runtime.ops().size(); ++i) {
      if ((i < num_forward) == is_forward) sum += runtime.ops()[i].flops;
    }
    return sum;
  }

  RecordingRuntime runtime;
  std::unique_ptr<Model> model;
  std::int64_t kept = 0;  ///< Bytes between forward and backward, beside the block's input.
  std::size_t num_forward = 0;
};

}  // namespace shardsim::test
