#include "sim/search/layer_costs.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/kernel/error.hpp"

#include "sim/hardware/network_model.hpp"

#include "strategies/model/expert_counts.hpp"
#include "strategies/model/make_model.hpp"
#include "strategies/model/weight_gradient.hpp"
#include "strategies/named_groups.hpp"
#include "strategies/training/parallel_plan.hpp"

#include "scenarios/stage_places.hpp"
#include "sim/search/block_kinds.hpp"
#include "sim/search/priced_group.hpp"

namespace shardsim {
namespace {

// Weights and gradients that exist outside the ledger.
class PresentParameters final : public Parameters {
 public:
  PresentParameters(const Model& model, DType gradient_dtype)
      : model_(model), gradient_dtype_(gradient_dtype) {}

  [[nodiscard]] Tensor weight(int index) override { return tensor(index, model_.dtype()); }
  [[nodiscard]] Tensor gradient(int index) override { return tensor(index, gradient_dtype_); }
  void gradient_ready(int index) override {
    if (on_ready) on_ready(index);
  }

  std::function<void(int)> on_ready;

 private:
  [[nodiscard]] Tensor tensor(int index, DType dtype) const {
    const Shape& shape = model_.parameters()[static_cast<std::size_t>(index)].shape;
    return Tensor::allocate(nullptr, MemoryCategory::params, shape, dtype, /*meta=*/true);
  }
  const Model& model_;
  DType gradient_dtype_;
};

// Writes down when gradients are complete.
class GradientTimes {
 public:
  GradientTimes(ProbeClock& clock, std::span<const int> parameters,
                std::vector<GradientTime>& gradients)
      : clock_(clock), parameters_(parameters), gradients_(gradients) {}

  void note(int index) {
    const auto place = std::ranges::find(parameters_, index) - parameters_.begin();
    if (place == std::ssize(parameters_)) return;  // A run refuses it (E0618).
    ++clock_.num_told;
    gradients_.push_back({.place = static_cast<std::size_t>(place),
                          .at = (clock_.now - begin_).picoseconds(),
                          .since = since_last()});
  }
  // Waiting that something can be computed beside may be shorter where the rank was late before.
  [[nodiscard]] std::int64_t since_last() {
    const Time sure = clock_.now - clock_.waited + clock_.waited_at_once;
    return (sure - std::exchange(last_, sure)).picoseconds();
  }

 private:
  ProbeClock& clock_;
  std::span<const int> parameters_;
  std::vector<GradientTime>& gradients_;
  Time begin_ = clock_.now;
  Time last_ = clock_.now - clock_.waited + clock_.waited_at_once;
};

ModelOptions options_for(const Experiment& base, const LayerKey& key) {
  ModelOptions options = base.options().model;
  options.tensor_parallel = static_cast<int>(key.tp);
  options.context_parallel = static_cast<int>(key.cp);
  options.sequence_parallel = key.sequence_parallel;
  options.overlaps_tensor_parallel =
      key.sequence_parallel && base.scenario().parallelism.overlap_tensor_parallel;
  options.recompute = key.recompute;
  options.moe.expert_parallel = static_cast<int>(std::max(key.ep, std::int64_t{1}));
  options.moe.expert_tensor_parallel = static_cast<int>(key.etp);
  options.moe.dispatch_recipe = dispatch_recipe_of(base.scenario().parallelism, key.ep);
  // Groups within groups are not probed: another form computes no more than two levels do.
  options.context_attention = context_attention_row(options.context_attention).probed_as;
  return options;
}

// One block, with an MLP of this size in place of experts.
ModelOptions with_dense_mlp(ModelOptions options, std::int64_t ffn_hidden_size) {
  options.moe = {};
  options.ffn_hidden_size = ffn_hidden_size;
  return options;
}

// A mesh that has the groups of one rank: with tp fastest, the same whatever the other axes are.
MeshShape mesh_of(const Experiment& base, const LayerKey& key) {
  MeshShape mesh{
      .tp = static_cast<int>(key.tp), .cp = static_cast<int>(key.cp), .order = base.mesh().order};
  if (key.ep == 0) return mesh;
  mesh.ep = static_cast<int>(key.ep);
  mesh.etp = static_cast<int>(key.etp);
  mesh.dp_shard = mesh.expert_parts() / std::gcd(mesh.expert_parts(), mesh.tp * mesh.cp);
  ParallelismSpec shared = base.scenario().parallelism;
  shared.ep = key.ep;
  mesh.dispatch_nodes = dispatch_nodes_of(shared, base.cluster().gpus_per_node);
  return mesh;
}

bool is_of_layer(const std::string& name) {
  return name == named_group::kTp.name || name == named_group::kCp.name ||
         name == named_group::kEtp.name || token_stream_of(name) >= 0;
}

// The costs that one probe finds, by a model of one block.
struct LayerProbe {
  ModuleCost embedding;
  ModuleCost block;
  ModuleCost head;
  std::int64_t message = 0;
};

class Probe {
 public:
  Probe(const Experiment& base, NetworkModel& network, const LayerKey& key,
        const ModelOptions& options)
      : model_(make_model(options)),
        samples_(key.micro_batch_size),
        runtime_(base.cluster().device, clock_),
        parameters_(*model_, base.options().sync.gradient_dtype),
        shape_(mesh_of(base, key)),
        world_({.clock = clock_,
                .network = network,
                .cluster = base.cluster(),
                .algorithm = base.world().all_reduce_algorithm,
                .is_priced = prices_of(base, options)},
               shape_.size(), 0),
        mesh_(world_, shape_),
        parallel_(options, mesh_),
        part_{0, shape_.cp} {}

  void run(LayerProbe& costs) {
    costs.message =
        model_->activation_shape(samples_).numel() * std::int64_t{size_of(model_->dtype())};
    const std::array<ModuleCost*, 3> modules = {&costs.embedding, &costs.block, &costs.head};
    pass(modules, false);
    std::array<ModuleCost, 3> whole;
    for (std::size_t i = 0; i < modules.size(); ++i) whole.at(i) = *modules.at(i);
    pass(modules, true);
    // The longer waiting of both passes leaves least room for other communication: sound for both.
    for (std::size_t i = 0; i < modules.size(); ++i) {
      ModuleCost& cost = *modules.at(i);
      cost.waiting = std::max(cost.waiting, whole.at(i).waiting);
      cost.waiting_at_once = std::min(cost.waiting_at_once, whole.at(i).waiting_at_once);
    }
    // The next module owns the output that is handed on.
    costs.embedding.kept -= costs.message;
  }

 private:
  // Neighbours in data parallelism put groups elsewhere in each layout; a form of attention that
  // stands for another one makes other calls.
  [[nodiscard]] static std::function<bool(const std::string& name)> prices_of(
      const Experiment& base, const ModelOptions& options) {
    const bool is_none = base.mesh().order != RankOrder::tp_dp_pp;
    const bool no_context = base.options().model.context_attention != options.context_attention;
    return [=](const std::string& name) {
      if (is_none || (no_context && name == named_group::kCp.name)) return false;
      return is_of_layer(name);
    };
  }

  [[nodiscard]] ModelContext context() { return {runtime_, parameters_, parallel_.ends()}; }

  void pass(const std::array<ModuleCost*, 3>& costs, bool splits) {
    const Batch batch = model_->make_batch(runtime_, 1, 0, samples_, 0.0, part_);
    std::array<Saved, 3> saved;
    Tensor x;
    for (int module = 0; module < 3; ++module) {
      const auto i = static_cast<std::size_t>(module);
      const Time begin = clock_.now;
      const Time waited = clock_.waited;
      const Time at_once = clock_.waited_at_once;
      const TokenTime tokens = clock_.tokens;
      const std::int64_t held = runtime_.ledger()->total_now();
      x = model_->forward(module, context(), std::exchange(x, Tensor()), batch, saved[i]);
      costs[i]->forward = (clock_.now - begin).picoseconds();
      costs[i]->waiting = (clock_.waited - waited).picoseconds();
      costs[i]->waiting_at_once = (clock_.waited_at_once - at_once).picoseconds();
      costs[i]->forward_tokens = clock_.tokens - tokens;
      costs[i]->kept = runtime_.ledger()->total_now() - held;
    }
    x = {};
    Tensor gradient;
    for (int module = 2; module >= 0; --module) {
      const auto i = static_cast<std::size_t>(module);
      gradient = backward(module, gradient, batch, saved[i], *costs[i], splits);
    }
  }

  Tensor backward(int module, const Tensor& gradient, const Batch& batch, Saved& saved,
                  ModuleCost& cost, bool splits) {
    WeightGradientQueue later;
    ModelContext here = context();
    if (splits) here.later = &later;
    Time begin = clock_.now;
    const Time waited = clock_.waited;
    const Time at_once = clock_.waited_at_once;
    const TokenTime tokens = clock_.tokens;
    const std::int64_t held = runtime_.ledger()->total_now();
    runtime_.ledger()->reset_peaks();
    GradientTimes times(clock_, model_->parameters_of(module), cost.gradients);
    if (!splits) parameters_.on_ready = [&times](int index) { times.note(index); };
    Tensor result = model_->backward(module, here, gradient, batch, saved);
    const std::int64_t taken = (clock_.now - begin).picoseconds();
    parameters_.on_ready = nullptr;
    if (!splits) {
      cost.waiting += (clock_.waited - waited).picoseconds();
      cost.waiting_at_once += (clock_.waited_at_once - at_once).picoseconds();
      cost.backward = taken;
      cost.backward_tokens = clock_.tokens - tokens;
      cost.after_gradients = times.since_last();
      cost.transient = runtime_.ledger()->peak() - held;
      return result;
    }
    cost.backward_input = taken;
    begin = clock_.now;
    model_->run_weight_gradients(later, context());
    cost.backward_weight = (clock_.now - begin).picoseconds();
    cost.waiting += (clock_.waited - waited).picoseconds();
    cost.waiting_at_once += (clock_.waited_at_once - at_once).picoseconds();
    return result;
  }

  std::unique_ptr<Model> model_;
  std::int64_t samples_;
  ProbeClock clock_;
  ProbeRuntime runtime_;
  PresentParameters parameters_;
  MeshShape shape_;
  PricedWorld world_;
  Mesh mesh_;
  RankParallel parallel_;
  SequencePart part_;
};

WeightCounts weights_of(const Model& model, int module) {
  WeightCounts counts;
  for (const int index : model.parameters_of(module)) {
    const ParameterSpec& spec = model.parameters()[static_cast<std::size_t>(index)];
    (spec.expert && spec.is_split() ? counts.expert : counts.dense) += spec.shape.numel();
  }
  return counts;
}

// The least time of the MLPs of a block with experts, on their products alone. Every token passes
// this many of them, on any rank, and a layer ends when the busiest rank of its group does.
// `passes`: over the MLP.
std::int64_t expert_floor(const Experiment& base, const LayerKey& key, double passes) {
  const ModelSpec& m = base.scenario().model;
  if (m.num_experts == 0 || m.moe_capacity_factor > 0.0) return 0;
  constexpr double kFlopsPerWeight = 2.0;
  const double matrices = base.options().model.activation.is_gated() ? 3.0 : 2.0;
  const std::int64_t row = base.options().model.moe.row_size(m.hidden_size);
  const auto weights = static_cast<double>(m.num_experts_per_token * m.moe_ffn_hidden_size * row +
                                           m.moe_shared_ffn_hidden_size * m.hidden_size);
  const double tokens =
      static_cast<double>(key.micro_batch_size * m.seq_len) / static_cast<double>(key.cp * key.tp);
  const double flops = kFlopsPerWeight * matrices * tokens * weights * passes;
  constexpr double kPicoseconds = 1e12;
  const double peak = base.cluster().device.peak(base.scenario().training.product_dtype());
  return static_cast<std::int64_t>(flops / peak * kPicoseconds);
}

// Whether every rank routes as many tokens to each rank's experts as this one does in its first
// layer, and has the same neighbours on its nodes.
bool knows_routing(const Experiment& base, const LayerKey& key) {
  const MoeOptions& moe = base.options().model.moe;
  if (moe.num_experts == 0 || key.ep == 0 || moe.declares_routing()) return false;
  const std::int64_t shares = key.cp * (key.sequence_parallel ? key.tp : 1);
  const std::int64_t rows = key.micro_batch_size * base.scenario().model.seq_len / shares;
  const std::int64_t of_node = base.cluster().gpus_per_node;
  const std::int64_t parts = key.ep * key.etp;
  const bool is_regular = parts % of_node == 0 || of_node % parts == 0;
  return even_shares(moe, rows).are_alike(moe.num_experts, key.ep) && is_regular;
}

}  // namespace

BackwardParts ModuleCost::parts(BackwardCut cut) const {
  if (cut == BackwardCut::whole) return {backward, 0};
  if (cut == BackwardCut::split) return {backward_input, backward_weight};
  const std::int64_t input = std::min(backward_input, backward);
  return {input, std::min(backward_weight, backward - input)};
}

namespace {

// A block that has experts, with these options.
ModuleCost probe_experts(const Experiment& base, NetworkModel& network, const LayerKey& key,
                         const ModelOptions& options) {
  LayerProbe probe;
  if (knows_routing(base, key)) {
    Probe(base, network, key, options).run(probe);
    return probe.block;
  }
  // The mixer alone, since a dense MLP would gather and scatter tokens, and a floor for experts.
  LayerKey alone = key;
  alone.ep = 0;
  alone.etp = 1;
  ModelOptions stand_in = with_dense_mlp(options, options.tensor_parallel);
  LayerOptions mixer = stand_in.layer(0);
  mixer.feed_forward = FeedForward::none;
  stand_in.layers = {mixer};
  stand_in.recompute_modules.remove(RecomputeModule::mlp);
  stand_in.recompute_modules.remove(RecomputeModule::activation);
  Probe(base, network, alone, stand_in).run(probe);
  ModuleCost block = probe.block;
  block.stands_for_another = true;
  if (options.recomputes(RecomputeModule::moe)) {  // Experts that run again keep nothing.
    constexpr std::int64_t kMatrices = 3;
    const std::int64_t tokens = key.micro_batch_size * base.scenario().model.seq_len / key.cp;
    block.kept -= kMatrices * tokens * size_of(options.dtype);
  }
  const bool is_full = options.recompute == Recompute::full;
  const double again = is_full || options.recomputes(RecomputeModule::moe) ? 1.0 : 0.0;
  block.forward += expert_floor(base, key, 1.0);
  block.backward += expert_floor(base, key, 2.0 + again);
  block.backward_input += expert_floor(base, key, 1.0 + again);
  block.backward_weight += expert_floor(base, key, 1.0);
  return block;
}

}  // namespace

LayerCosts probe_layers(const Experiment& base, NetworkModel& network, const LayerKey& key) {
  const ModelOptions options = options_for(base, key);
  const BlockKinds kinds = block_kinds_of(options);
  LayerCosts costs;
  costs.kind_of = kinds.of_block;
  LayerKey alone = key;
  if (options.moe.num_experts > 0) {
    alone.ep = 0;
    alone.etp = 1;
  }
  // The embedding, the head and the message are those of any model without experts.
  LayerProbe probe;
  bool is_probed = false;
  for (const int block : kinds.example) {
    const ModelOptions here = block_alone(options, block);
    const bool has_experts = here.moe.num_experts > 0;
    if (!has_experts || !is_probed) {
      probe = {};  // Times of gradients are of this kind's parameters alone.
      const std::int64_t tp = here.tensor_parallel;  // Need not divide an MLP that no block has.
      const std::int64_t width = std::max(here.ffn_hidden_size - here.ffn_hidden_size % tp, tp);
      Probe(base, network, alone, with_dense_mlp(here, width)).run(probe);
      is_probed = true;
    }
    costs.blocks.push_back(has_experts ? probe_experts(base, network, key, here) : probe.block);
  }
  costs.embedding = probe.embedding;
  costs.head = probe.head;
  costs.message = probe.message;
  return costs;
}

LayerWeights count_weights(const Experiment& base, const Candidate& candidate) {
  ModelOptions options = base.options().model;
  options.tensor_parallel = static_cast<int>(candidate.tp);
  // As experts need it; shapes do not depend on it.
  options.sequence_parallel = candidate.tp > 1;
  options.moe.expert_parallel = static_cast<int>(candidate.ep);
  options.moe.expert_tensor_parallel = static_cast<int>(candidate.etp);
  const BlockKinds kinds = block_kinds_of(options);
  LayerWeights weights;
  std::unique_ptr<Model> model;
  for (const int block : kinds.example) {
    model = make_model(block_alone(options, block));
    weights.blocks.push_back(weights_of(*model, 1));
  }
  weights.embedding = weights_of(*model, 0);
  weights.head = weights_of(*model, 2);
  if (!options.tied_embeddings) return weights;
  const int table = model->parameters_of(0).front();
  weights.tied_table = model->parameters()[static_cast<std::size_t>(table)].shape.numel();
  weights.head.dense -= weights.tied_table;
  return weights;
}

}  // namespace shardsim
