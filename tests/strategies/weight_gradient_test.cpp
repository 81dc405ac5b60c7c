#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/strategies/recording_runtime.hpp"
#include "tests/strategies/tensor_parallel_fixture.hpp"

// Backward in two halves: the gradient of the input, and later those of the weights.
namespace shardsim::test {
namespace {

constexpr auto kGrads = static_cast<std::size_t>(MemoryCategory::grads);

struct Halves {
  std::int64_t flops_input = 0;
  std::int64_t flops_weight = 0;
  std::int64_t flops_attention = 0;
};

std::int64_t flops_of(const std::vector<ComputeOp>& ops, std::size_t first) {
  std::int64_t flops = 0;
  for (std::size_t i = first; i < ops.size(); ++i) flops += ops[i].flops;
  return flops;
}

// Backward of a model on one device, recorded; the queue's part apart.
Halves run_halves(const Model& model, Runtime& runtime, const std::vector<ComputeOp>& ops,
                  WholeParameters& parameters, WeightGradientQueue* queue) {
  const Batch batch = model.make_batch(runtime, 1, 0, 2, 0.0);
  std::vector<Saved> saved;
  (void)run_forward(model, runtime, parameters, batch, saved);
  Halves halves;
  const std::size_t forward_ops = ops.size();
  Tensor d;
  for (int module = model.num_modules() - 1; module >= 0; --module) {
    d = model.backward(module, {runtime, parameters, {}, queue}, d, batch,
                       saved[static_cast<std::size_t>(module)]);
  }
  halves.flops_input = flops_of(ops, forward_ops);
  for (std::size_t i = forward_ops; i < ops.size(); ++i) {
    if (ops[i].name == std::string("attention_backward")) halves.flops_attention += ops[i].flops;
  }
  const std::size_t backward_ops = ops.size();
  if (queue != nullptr) queue->run({runtime, parameters});
  halves.flops_weight = flops_of(ops, backward_ops);
  return halves;
}

// Backward's operations by name, and what they read and write.
struct Charged {
  std::map<std::string, int> operations;
  std::int64_t flops = 0;
  std::int64_t bytes = 0;
};

Charged charged_for_backward(const Model& model, DType dtype, DType gradient_dtype,
                             bool in_halves) {
  RecordingRuntime runtime(false);
  WholeParameters parameters(model, runtime, 5, dtype, gradient_dtype);
  const Batch batch = model.make_batch(runtime, 1, 0, 2, 0.0);
  std::vector<Saved> saved;
  (void)run_forward(model, runtime, parameters, batch, saved);
  const std::size_t forward_ops = runtime.ops().size();
  WeightGradientQueue queue;
  Tensor d;
  for (int module = model.num_modules() - 1; module >= 0; --module) {
    d = model.backward(module, {runtime, parameters, {}, in_halves ? &queue : nullptr}, d, batch,
                       saved[static_cast<std::size_t>(module)]);
  }
  queue.run({runtime, parameters});
  Charged charged;
  for (std::size_t i = forward_ops; i < runtime.ops().size(); ++i) {
    const ComputeOp& op = runtime.ops()[i];
    ++charged.operations[op.name];
    charged.flops += op.flops;
    charged.bytes += op.bytes;
  }
  return charged;
}

}  // namespace

TEST_CASE(
    "both halves of backward charge what the whole does, and an add per parameter of a norm") {
  for (const char* name : kSmallModels) {
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      for (const DType gradient_dtype : {DType::fp64, DType::fp32, DType::bf16}) {
        ModelOptions options = small_model(name, DType::bf16);
        if (options.family != "mlp") options.recompute = recompute;
        const auto model = make_model(options);
        Charged expected = charged_for_backward(*model, DType::bf16, gradient_dtype, false);
        for (const ParameterSpec& spec : model->parameters()) {
          if (spec.name.find("norm") == std::string::npos) continue;
          ++expected.operations["add"];
          // With g bytes per element of a gradient: the norm reads and writes a sum of 8 (16 for
          // 2 g), which the addition reads, as it reads and writes the gradient (8 + 2 g).
          expected.bytes += (16 + 8) * spec.shape.numel();
        }
        const Charged charged = charged_for_backward(*model, DType::bf16, gradient_dtype, true);
        CAPTURE(name, static_cast<int>(recompute), name_of(gradient_dtype));
        CHECK(charged.operations == expected.operations);
        CHECK(charged.flops == expected.flops);
        CHECK(charged.bytes == expected.bytes);
      }
    }
  }
}

TEST_CASE("both halves of backward together have its flops, gradients and order") {
  for (const char* name : kSmallModels) {
    for (const DType dtype : {DType::fp64, DType::bf16}) {
      const auto model = make_model(small_model(name, dtype));
      RecordingRuntime whole_runtime(true);
      RecordingRuntime split_runtime(true);
      WholeParameters whole(*model, whole_runtime, 5, dtype, DType::fp32);
      WholeParameters split(*model, split_runtime, 5, dtype, DType::fp32);
      WeightGradientQueue queue;
      const Halves together =
          run_halves(*model, whole_runtime, whole_runtime.ops(), whole, nullptr);
      const Halves apart = run_halves(*model, split_runtime, split_runtime.ops(), split, &queue);
      CAPTURE(name);
      CHECK(together.flops_weight == 0);
      CHECK(apart.flops_input + apart.flops_weight == together.flops_input);
      // Linear layers need as much for one gradient as for the other, but that the first layer's
      // input is data.
      const bool data_first = small_model(name).family == "mlp";
      const std::int64_t first_layer = data_first ? 2 * 2 * 12 * 8 : 0;  // b = 2, f = 12, h = 8.
      CHECK(apart.flops_weight - first_layer == apart.flops_input - apart.flops_attention);
      CHECK(split.ready() == whole.ready());
      // Bitwise, in whatever precision.
      for (int i = 0; i < whole.size(); ++i) {
        CHECK(max_difference(split.gradient(i), whole.gradient(i)) == 0.0);
      }
      CHECK(split_runtime.activation_bytes() == whole_runtime.activation_bytes());
    }
  }
}

TEST_CASE("a gradient that is apart takes memory until it has been added") {
  for (const char* name : kSmallModels) {
    const auto model = make_model(small_model(name, DType::bf16));
    for (const bool in_halves : {false, true}) {
      for (const double bytes : {0.0, 2.0, 4.0}) {
        CAPTURE(name, in_halves, bytes);
        RecordingRuntime runtime(false);
        WholeParameters parameters(*model, runtime, 5, DType::bf16, DType::fp32);
        const std::int64_t sums = runtime.ledger()->now(MemoryCategory::grads);
        const Batch batch = model->make_batch(runtime, 1, 0, 2, 0.0);
        std::vector<Saved> saved;
        (void)run_forward(*model, runtime, parameters, batch, saved);
        CHECK(runtime.ledger()->category_peaks()[kGrads] == sums);
        WeightGradientQueue queue;
        ModelContext context{runtime, parameters, {}, in_halves ? &queue : nullptr};
        context.apart_gradient_bytes = bytes;
        Tensor d;
        for (int module = model->num_modules() - 1; module >= 0; --module) {
          d = model->backward(module, context, d, batch, saved[static_cast<std::size_t>(module)]);
        }
        if (in_halves) {
          CHECK(runtime.ledger()->category_peaks()[kGrads] == sums);
          context.later = nullptr;
          queue.run(context);
        }
        // One at a time. The small models' largest parameter is a matrix.
        std::int64_t largest = 0;
        for (const ParameterSpec& spec : model->parameters()) {
          largest = std::max(largest, spec.shape.numel());
        }
        CHECK(runtime.ledger()->category_peaks()[kGrads] ==
              sums + static_cast<std::int64_t>(bytes) * largest);
        CHECK(runtime.ledger()->now(MemoryCategory::grads) == sums);
      }
    }
  }
}

TEST_CASE("nothing is added or reported before the queue runs, and nothing is held after") {
  const auto model = make_model(small_model("gpt2"));
  RecordingRuntime runtime(true);
  WholeParameters parameters(*model, runtime, 5, DType::fp64, DType::fp64);
  WeightGradientQueue queue;
  for (int microbatch = 0; microbatch < 3; ++microbatch) {
    const std::int64_t before = runtime.activation_bytes();
    {
      const Batch batch = model->make_batch(runtime, 1, 0, 2, 0.0);
      std::vector<Saved> saved;
      (void)run_forward(*model, runtime, parameters, batch, saved);
      Tensor d;
      for (int module = model->num_modules() - 1; module >= 0; --module) {
        d = model->backward(module, {runtime, parameters, {}, &queue}, d, batch,
                            saved[static_cast<std::size_t>(module)]);
      }
    }
    // The head's weight, the final norm's two, twelve of each block, positions and tokens.
    CHECK(queue.size() == 1 + 2 + 2 * 12 + 2);
    CHECK(parameters.ready().size() == static_cast<std::size_t>(microbatch * parameters.size()));
    CHECK(runtime.activation_bytes() > before);
    queue.run({runtime, parameters});
    CHECK(queue.empty());
    CHECK(runtime.activation_bytes() == before);
  }
}

}  // namespace shardsim::test
