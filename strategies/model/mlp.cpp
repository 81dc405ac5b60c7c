#include <cmath>
#include <string>
#include <utility>

#include "sim/kernel/random.hpp"

#include "strategies/model/activation.hpp"
#include "strategies/model/families.hpp"
#include "strategies/model/loss.hpp"
#include "strategies/model/parameter_table.hpp"
#include "strategies/model/pass.hpp"
#include "strategies/model/token_data.hpp"

// A perceptron: num_layers hidden layers with ReLU, a linear output layer, half squared error. Its
// arithmetic is additions and multiplications only, so on whole numbers it is exact: strategies
// are compared bitwise on it.
namespace shardsim {

namespace {

enum Layer : int { weight, bias, parameters_per_layer };
enum LayerSaved : std::size_t { input, output, num_saved };

// Whole numbers this small keep every gradient of a few layers far below 2^53.
constexpr double kIntegerWeights = 1.0;
constexpr std::uint64_t kIntegerData = 2;

class Mlp final : public Model {
 public:
  explicit Mlp(const ModelOptions& options) : options_(options) {
    for (std::int64_t layer = 0; layer <= options.num_layers; ++layer) {
      const std::string name = "layers." + std::to_string(layer);
      const bool is_last = layer == options.num_layers;
      const std::int64_t inputs = layer == 0 ? options.hidden_size : options.ffn_hidden_size;
      const std::int64_t outputs = is_last ? options.vocab_size : options.ffn_hidden_size;
      table_.begin_unit(name);
      table_.add(name + ".weight", {outputs, inputs}, weight_init(inputs));
      table_.add(name + ".bias", {outputs}, bias_init());
      units_of_.push_back(static_cast<int>(layer));
      for (int k = 0; k < parameters_per_layer; ++k) {
        parameters_of_.push_back(static_cast<int>(layer) * parameters_per_layer + k);
      }
    }
  }

  [[nodiscard]] std::span<const ParameterSpec> parameters() const override {
    return table_.specs();
  }
  [[nodiscard]] std::span<const ParameterUnit> units() const override { return table_.units(); }
  [[nodiscard]] int num_modules() const override { return static_cast<int>(units_of_.size()); }
  [[nodiscard]] std::span<const int> units_of(int module) const override {
    return {&units_of_[static_cast<std::size_t>(module)], 1};
  }
  [[nodiscard]] std::span<const int> parameters_of(int module) const override {
    return {&parameters_of_[static_cast<std::size_t>(module * parameters_per_layer)],
            parameters_per_layer};
  }
  [[nodiscard]] Shape activation_shape(std::int64_t samples) const override {
    return {samples, options_.ffn_hidden_size};
  }
  [[nodiscard]] DType dtype() const override { return options_.dtype; }

  Tensor forward(int module, const ModelContext& context, const Tensor& module_input,
                 const Batch& batch, Saved& saved) const override {
    const Pass pass{context, module * parameters_per_layer};
    Runtime& runtime = context.runtime;
    saved.resize(num_saved);
    saved[input] = module == 0 ? batch.inputs : module_input;            // (b, k)
    saved[output] = apply_linear_with_bias(pass, weight, saved[input]);  // (b, n)
    if (is_last(module)) {
      return squared_error_forward(runtime, saved[output], batch.targets, batch.mask);
    }
    relu_forward(runtime, saved[output]);
    return saved[output];
  }

  Tensor backward(int module, const ModelContext& context, const Tensor& output_gradient,
                  const Batch& batch, Saved& saved) const override {
    const Pass pass{context, module * parameters_per_layer};
    Runtime& runtime = context.runtime;
    Tensor dy = output_gradient;
    if (is_last(module)) {
      squared_error_backward(runtime, saved[output], batch.targets, batch.mask, batch.loss_scale);
      dy = saved[output];
    } else {
      relu_backward(runtime, saved[output], dy);
    }
    saved[output] = {};
    finish_linear_with_bias(pass, weight, dy, saved[input]);
    saved.clear();
    if (module == 0) return {};
    return linear_backward_input(runtime, dy, pass.weight(weight));
  }

  [[nodiscard]] Batch make_batch(Runtime& runtime, std::uint64_t seed, std::int64_t first,
                                 std::int64_t count, double ignore_fraction) const override {
    const auto allocate = [&](const Shape& shape, DType dtype) {
      return runtime.allocate(MemoryCategory::activations, shape, dtype);
    };
    Batch batch;
    batch.inputs = allocate({count, options_.hidden_size}, options_.dtype);
    batch.targets = allocate({count, options_.vocab_size}, options_.dtype);
    batch.mask = allocate({count}, DType::fp32);
    runtime.off_the_clock([&] {
      fill(batch.inputs, {seed, "data.inputs"}, first);
      fill(batch.targets, {seed, "data.targets"}, first);
      const KeptTargets is_kept(seed, ignore_fraction);
      for (std::int64_t row = 0; row < count; ++row) {
        batch.mask.set(row, is_kept(first + row) ? 1.0 : 0.0);
      }
    });
    return batch;
  }

  [[nodiscard]] std::int64_t count_targets(std::uint64_t seed, std::int64_t first,
                                           std::int64_t count,
                                           double ignore_fraction) const override {
    return count_kept(seed, first, count, ignore_fraction);
  }

  [[nodiscard]] std::int64_t positions_per_sample() const override { return 1; }

  [[nodiscard]] std::int64_t model_flops_per_sample() const override {
    std::int64_t elements = 0;
    for (const ParameterSpec& spec : table_.specs()) {
      if (spec.shape.rank() == 2) elements += spec.shape.numel();
    }
    return checked_product({3, 2, elements});
  }

 private:
  [[nodiscard]] bool is_last(int module) const { return module == num_modules() - 1; }

  // Variance 1 / inputs keeps activations of order one through the layers.
  [[nodiscard]] Init weight_init(std::int64_t inputs) const {
    if (options_.integer_valued) return {Init::Kind::integers, kIntegerWeights};
    return {Init::Kind::bell, 1.0 / std::sqrt(static_cast<double>(inputs))};
  }

  [[nodiscard]] Init bias_init() const {
    if (options_.integer_valued) return {Init::Kind::integers, kIntegerWeights};
    return {Init::Kind::zeros, 0.0};
  }

  // Rows are samples, `first` is the first one's number in the data set.
  void fill(const Tensor& rows, const RandomStream& random, std::int64_t first) const {
    const std::int64_t offset = first * last_dim(rows);
    for (std::int64_t i = 0; i < rows.numel(); ++i) {
      const auto index = static_cast<std::uint64_t>(offset + i);
      if (options_.integer_valued) {
        const auto draw = static_cast<double>(random.below(index, 2 * kIntegerData + 1));
        rows.set(i, draw - static_cast<double>(kIntegerData));
      } else {
        rows.set(i, random.bell(index));
      }
    }
  }

  ModelOptions options_;
  ParameterTable table_;
  std::vector<int> units_of_;  // Module i is unit i.
  std::vector<int> parameters_of_;
};

}  // namespace

std::unique_ptr<Model> make_mlp(const ModelOptions& options) {
  return std::make_unique<Mlp>(options);
}

}  // namespace shardsim
