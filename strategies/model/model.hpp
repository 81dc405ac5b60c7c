#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/runtime.hpp"

#include "strategies/model/batch.hpp"
#include "strategies/model/model_context.hpp"
#include "strategies/model/offload_modules.hpp"
#include "strategies/model/parameter.hpp"
#include "strategies/model/router_bias.hpp"

// A model as a chain of modules, written for one device, forward beside backward. One instance is
// shared by all ranks: it has no state; what backward needs is kept in `Saved`.
namespace shardsim {

/// Numbers of valid targets, one for each of a model's losses.
using TargetCounts = std::vector<double>;

/// Activations one module keeps from forward to backward. Backward drops each as soon as it has
/// been used and leaves the vector empty.
using Saved = std::vector<Tensor>;

/// Consecutive modules.
struct ModuleRange {
  int first = 0;
  int count = 0;
};

/// The dtype of an activation tensor determines its bytes. Arithmetic on elements is done in double
/// and rounded once per operation to that dtype.
class Model {
 public:
  virtual ~Model() = default;

  [[nodiscard]] virtual std::span<const ParameterSpec> parameters() const = 0;
  /// Units partition the parameters, in order.
  [[nodiscard]] virtual std::span<const ParameterUnit> units() const = 0;

  [[nodiscard]] virtual int num_modules() const = 0;
  /// Modules that count as layers: hidden layers, or blocks. Modules before them belong with the
  /// first, modules after them with the last.
  [[nodiscard]] virtual ModuleRange layer_modules() const = 0;
  /// Units whose weights `module` reads (a tied head reads the embedding's, too).
  [[nodiscard]] virtual std::span<const int> units_of(int module) const = 0;
  /// Parameters that `module` reads, ascending (a tied head reads the embedding's token table).
  [[nodiscard]] virtual std::span<const int> parameters_of(int module) const = 0;

  /// The first module that does the same as `module`, with parameters of its own: they correspond
  /// in the order of parameters_of. Without data it does the same for each batch.
  [[nodiscard]] virtual int kind_of(int module) const { return module; }
  /// Whether forward leaves more to backward than tensors in `saved`.
  [[nodiscard]] virtual bool keeps_state(int /*module*/) const { return false; }

  /// The part of a block for whose input each tensor in `saved` stays; none for other modules.
  [[nodiscard]] virtual std::vector<OffloadModule> readers_of_kept(int /*module*/) const {
    return {};
  }

  /// State that layers read beside parameters, by layer.
  [[nodiscard]] virtual std::vector<RouterBiasSpec> router_biases() const { return {}; }

  /// Activation that a module hands the next, and a pipeline stage sends: its shape for a
  /// microbatch of `samples`, and its dtype. Both are the same between any two modules, and for the
  /// gradient that comes back.
  [[nodiscard]] virtual Shape activation_shape(std::int64_t samples) const = 0;
  [[nodiscard]] virtual DType dtype() const = 0;

  /// Whether activations are rounded to few bits between layers, or between forward and backward.
  [[nodiscard]] virtual bool casts_activations() const { return false; }

  /// Runs of modules that go forward and backward on their own: the model chunks of a pipeline
  /// rank.
  [[nodiscard]] virtual int num_chunks() const { return 1; }
  [[nodiscard]] virtual ModuleRange modules_of_chunk(int /*chunk*/) const {
    return {0, num_modules()};
  }

  /// Losses that the last module returns: of the next token, and with multi-token prediction of one
  /// more token ahead each.
  [[nodiscard]] virtual int num_losses() const { return 1; }
  /// Factor of a loss in what is trained: the sum of all, each a mean over its own targets.
  [[nodiscard]] virtual double loss_weight(int /*loss*/) const { return 1.0; }

  /// Runs one module. `input` is undefined for the first module (it reads the batch). The last
  /// module returns the sums of the losses of the valid targets, [num_losses] fp64, NOT scaled.
  virtual Tensor forward(int module, const ModelContext& context, const Tensor& input,
                         const Batch& batch, Saved& saved) const = 0;
  /// Runs one module backwards. `output_gradient` is undefined for the last module (it starts from
  /// batch.loss_scale); it may be overwritten. Returns the gradient of the module's input,
  /// undefined for the first.
  virtual Tensor backward(int module, const ModelContext& context, const Tensor& output_gradient,
                          const Batch& batch, Saved& saved) const = 0;

  /// Adds and reports the gradients that backward left in `queue`.
  virtual void run_weight_gradients(WeightGradientQueue& queue, const ModelContext& context) const;

  /// Data of samples [first, first + count) of the endless synthetic data set: a function of
  /// (seed, sample index, position) alone. `ignore_fraction` of the targets are ignored. The batch
  /// has the positions of `part`.
  [[nodiscard]] virtual Batch make_batch(Runtime& runtime, std::uint64_t seed, std::int64_t first,
                                         std::int64_t count, double ignore_fraction,
                                         const SequencePart& part) const = 0;
  /// How many targets of those positions a loss counts; computed without allocating tensors.
  [[nodiscard]] virtual std::int64_t count_targets(std::uint64_t seed, std::int64_t first,
                                                   std::int64_t count, double ignore_fraction,
                                                   const SequencePart& part, int loss) const = 0;
  /// For whole samples.
  [[nodiscard]] Batch make_batch(Runtime& runtime, std::uint64_t seed, std::int64_t first,
                                 std::int64_t count, double ignore_fraction) const {
    return make_batch(runtime, seed, first, count, ignore_fraction, {});
  }
  [[nodiscard]] std::int64_t count_targets(std::uint64_t seed, std::int64_t first,
                                           std::int64_t count, double ignore_fraction) const {
    return count_targets(seed, first, count, ignore_fraction, SequencePart{});
  }
  /// For the next token alone.
  [[nodiscard]] std::int64_t count_targets(std::uint64_t seed, std::int64_t first,
                                           std::int64_t count, double ignore_fraction,
                                           const SequencePart& part) const {
    return count_targets(seed, first, count, ignore_fraction, part, 0);
  }
  /// Positions per sample: tokens/s counts samples times this.
  [[nodiscard]] virtual std::int64_t positions_per_sample() const = 0;
  /// Flops that training on one sample needs, whatever is recomputed: those of forward's matrix
  /// products, causal attention counted by half, times three: backward needs two for each, but one
  /// where a product's input is data and nobody asks for its gradient.
  [[nodiscard]] virtual std::int64_t model_flops_per_sample() const = 0;
  /// The share of them for one token and one of its experts, in one layer: the work that is saved
  /// if an expert's capacity drops the token. 0 without experts.
  [[nodiscard]] virtual std::int64_t model_flops_per_expert_token() const { return 0; }
};

/// Sets the batch's factors of losses whose means are over so many targets; all times `factor`.
void set_loss_scales(Batch& batch, const Model& model, const TargetCounts& targets, double factor);
/// The loss that is trained: the sum of weighted means. `sums`: of the losses of all targets. A sum
/// without targets stays a sum.
[[nodiscard]] double mean_of_losses(const Model& model, const std::vector<double>& sums,
                                    const TargetCounts& targets);

/// Elements of all parameters, of all their parts together; a tied weight counts once.
[[nodiscard]] std::int64_t num_parameters(const Model& model);
/// By how many tensor-parallel ranks parts are copied (TensorSplit), ascending; none: by none.
[[nodiscard]] std::vector<int> tensor_copies_of(const Model& model);

// How one microbatch goes through the chain is written here, once: training runs it, and so does
// the dry run that finds the order in which gradients become ready.

/// Parameters that are told which module runs next and which has run, so that they can be gathered
/// before and freed or reduced after.
class ModuleParameters : public Parameters {
 public:
  virtual void before_forward(int /*module*/) {}
  virtual void after_forward(int /*module*/) {}
  virtual void before_backward(int /*module*/) {}
  /// The gradient of the module's input is there: its weights are not read any more.
  virtual void after_backward(int /*module*/) {}
  /// The gradients of the module's parameters are complete for this microbatch.
  virtual void after_weight_gradients(int /*module*/) {}
};

/// Runs the modules of a chunk, first to last. `input` is undefined for the first module of a
/// model. Returns what the last of them returns: the activation for the next stage, or the sum of
/// the losses, [1] fp64. `saved` has a place per module of the chunk, empty before and filled
/// after.
[[nodiscard]] Tensor forward_chunk(const Model& model, int chunk, const ModelContext& context,
                                   ModuleParameters& parameters, Tensor input, const Batch& batch,
                                   std::span<Saved> saved);

/// Adds the gradients of weights that backward_chunk left in `queue`.
void finish_chunk(const Model& model, int chunk, const ModelContext& context,
                  ModuleParameters& parameters, WeightGradientQueue& queue);

/// Runs them last to first, and leaves `saved` empty again. `gradient` is that of the chunk's
/// output, undefined at the loss. Returns that of its input, undefined at the model's first module.
[[nodiscard]] Tensor backward_chunk(const Model& model, int chunk, const ModelContext& context,
                                    ModuleParameters& parameters, Tensor gradient,
                                    const Batch& batch, std::span<Saved> saved);

}  // namespace shardsim
