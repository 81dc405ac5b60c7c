#include <cmath>
#include <string>
#include <utility>

#include "sim/kernel/error.hpp"
#include "sim/kernel/random.hpp"

#include "strategies/model/activation.hpp"
#include "strategies/model/loss.hpp"
#include "strategies/model/make_model.hpp"
#include "strategies/model/parameter_table.hpp"
#include "strategies/model/pass.hpp"
#include "strategies/model/token_data.hpp"

// A perceptron: num_layers hidden layers with ReLU, a linear output layer, half squared error. Its
// arithmetic is additions and multiplications only, so on whole numbers it is exact: strategies
// are compared bitwise on it.
// Whole, each layer is a module. In tensor-parallel parts, layers pair up: the first of a pair is
// column-parallel, the second row-parallel, and both are one module, so that modules hand on whole
// activations. The last of an odd number of layers is alone, and whole on every rank.
namespace shardsim {

namespace {

class Mlp final : public Model {
 public:
  explicit Mlp(const ModelOptions& options) : options_(options) {
    const int num_layers = static_cast<int>(options.num_layers) + 1;
    for (int layer = 0; layer < num_layers; ++layer) {
      add_layer(layer);
      const bool joins = options.tensor_parallel > 1 && layer % 2 == 1;
      if (!joins) first_layer_.push_back(layer);
      layers_.push_back(layer);
      for (int k = 0; k < parameters_per_layer; ++k) {
        parameters_of_.push_back(layer * parameters_per_layer + k);
      }
    }
    first_layer_.push_back(num_layers);
  }

  [[nodiscard]] std::span<const ParameterSpec> parameters() const override {
    return table_.specs();
  }
  [[nodiscard]] std::span<const ParameterUnit> units() const override { return table_.units(); }
  [[nodiscard]] int num_modules() const override {
    return static_cast<int>(first_layer_.size()) - 1;
  }
  // All but the one with the output layer.
  [[nodiscard]] ModuleRange layer_modules() const override { return {0, num_modules() - 1}; }
  [[nodiscard]] std::span<const int> units_of(int module) const override {
    return std::span(layers_).subspan(to_size(first_layer(module)), to_size(num_layers(module)));
  }
  [[nodiscard]] std::span<const int> parameters_of(int module) const override {
    return std::span(parameters_of_)
        .subspan(to_size(std::int64_t{first_layer(module)} * parameters_per_layer),
                 to_size(std::int64_t{num_layers(module)} * parameters_per_layer));
  }
  [[nodiscard]] Shape activation_shape(std::int64_t samples) const override {
    return {samples, options_.ffn_hidden_size};
  }
  [[nodiscard]] DType dtype() const override { return options_.dtype; }

  Tensor forward(int module, const ModelContext& context, const Tensor& module_input,
                 const Batch& batch, Saved& saved) const override {
    require_context(context, options_);
    const Pass pass{context, first_layer(module) * parameters_per_layer};
    Runtime& runtime = context.runtime;
    saved.resize(num_saved);
    saved[input] = module == 0 ? batch.inputs : module_input;  // (b, k)
    if (num_layers(module) == 1) {
      saved[output] = apply_linear_with_bias(pass, weight, saved[input]);  // (b, n)
    } else {
      saved[hidden] = apply_linear_with_bias(
          pass, weight, enter_region(pass, saved[input], kPair));  // (b, f / t)
      relu_forward(runtime, saved[hidden]);
      saved[output] = apply_row_linear(pass, second_weight, true, saved[hidden], kPair);  // (b, n)
    }
    if (is_last(module)) {
      return squared_error_forward(runtime, saved[output], batch.targets, batch.mask);
    }
    relu_forward(runtime, saved[output]);
    return saved[output];
  }

  Tensor backward(int module, const ModelContext& context, const Tensor& output_gradient,
                  const Batch& batch, Saved& saved) const override {
    const Pass pass{context, first_layer(module) * parameters_per_layer};
    Runtime& runtime = context.runtime;
    Tensor dy = output_gradient;
    if (is_last(module)) {
      squared_error_backward(runtime, saved[output], batch.targets, batch.mask, batch.loss_scale);
      dy = saved[output];
    } else {
      relu_backward(runtime, saved[output], dy);
    }
    saved[output] = {};
    if (num_layers(module) == 2) return backward_pair(pass, dy, saved, module > 0);
    finish_bias(pass, bias, dy);
    finish_linear(pass, weight, dy, saved[input]);
    saved.clear();
    if (module == 0) return {};
    return linear_backward_input(runtime, dy, pass.weight(weight));
  }

  [[nodiscard]] Batch make_batch(Runtime& runtime, std::uint64_t seed, std::int64_t first,
                                 std::int64_t count, double ignore_fraction,
                                 const SequencePart& /*part*/) const override {
    Batch batch;
    batch.inputs = new_activation(runtime, {count, options_.hidden_size}, options_.dtype);
    batch.targets = new_activation(runtime, {count, options_.vocab_size}, options_.dtype);
    batch.mask = new_activation(runtime, {count}, DType::fp32);
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
                                           std::int64_t count, double ignore_fraction,
                                           const SequencePart& /*part*/,
                                           int /*loss*/) const override {
    return count_kept({.seed = seed, .ignore_fraction = ignore_fraction}, first, count);
  }

  [[nodiscard]] std::int64_t positions_per_sample() const override { return 1; }

  [[nodiscard]] std::int64_t model_flops_per_sample() const override {
    std::int64_t elements = 0;
    for (const ParameterSpec& spec : table_.specs()) {
      if (spec.shape.rank() == 2) elements += spec.whole_shape().numel();
    }
    // The first layer's input is data: backward computes only its weights' gradient.
    const std::int64_t first = table_.specs().front().whole_shape().numel();
    return checked_product({3, 2, elements}) - checked_product({2, first});
  }

 private:
  enum Layer : int { weight, bias, parameters_per_layer, second_weight = parameters_per_layer };
  enum LayerSaved : std::size_t { input, output, hidden, num_saved };
  static constexpr const char* kPair = "layers of a perceptron";  // In errors.

  // Whole numbers this small keep every gradient of a few layers far below 2^53.
  static constexpr double kIntegerWeights = 1.0;
  static constexpr std::uint64_t kIntegerData = 2;

  [[nodiscard]] int first_layer(int module) const { return first_layer_[to_size(module)]; }
  [[nodiscard]] int num_layers(int module) const {
    return first_layer(module + 1) - first_layer(module);
  }

  void add_layer(int layer) {
    const std::string name = "layers." + std::to_string(layer);
    const bool is_output = layer == options_.num_layers;
    const std::int64_t inputs = layer == 0 ? options_.hidden_size : options_.ffn_hidden_size;
    const std::int64_t outputs = is_output ? options_.vocab_size : options_.ffn_hidden_size;
    const int t = options_.tensor_parallel;
    const bool is_row = layer % 2 == 1;
    const bool is_column = !is_row && !is_output;
    table_.begin_unit(name);
    table_.add_split(name + ".weight", {outputs, inputs}, weight_init(inputs), is_row ? 1 : 0,
                     is_row || is_column ? t : 1);
    table_.add_split(name + ".bias", {outputs}, bias_init(), 0, is_column ? t : 1);
  }

  // Layers column-parallel and row-parallel; `dy` is the gradient before the activation.
  [[nodiscard]] static Tensor backward_pair(const Pass& pass, const Tensor& dy, Saved& saved,
                                            bool wants_input_gradient) {
    Tensor d = backward_row_linear(pass, second_weight, true, dy, saved[hidden], kPair);
    relu_backward(pass.runtime, saved[hidden], d);
    ColumnLinear reader{.k = weight, .has_bias = true, .dy = std::move(d)};
    d = backward_columns(pass, {&reader, 1}, std::move(saved[input]), kPair, wants_input_gradient);
    saved.clear();
    return d;
  }

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
  std::vector<int> layers_;         // 0, 1, ...: layer i is unit i.
  std::vector<int> parameters_of_;  // All, layer by layer.
  std::vector<int> first_layer_;    // By module; ends with the number of layers.
};

}  // namespace

std::unique_ptr<Model> make_mlp(const ModelOptions& options) {
  if (options.sequence_parallel) {
    throw UsageError("E0637", "family mlp has no sequence to divide among ranks",
                     "switch sequence_parallel off, or use family gpt2 or llama");
  }
  if (options.context_parallel > 1) {
    throw UsageError("E0661", "family mlp has no sequence to cut for context parallelism",
                     "use cp = 1, or family gpt2 or llama");
  }
  if (options.hidden_dropout > 0.0 || options.recompute != Recompute::none) {
    throw UsageError("E0639", "family mlp has neither dropout nor recomputation",
                     "use family gpt2 or llama, or set hidden_dropout 0 and recompute none");
  }
  return std::make_unique<Mlp>(options);
}

}  // namespace shardsim
