#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/kernel/error.hpp"

#include "sim/hardware/collective.hpp"
#include "sim/hardware/kernels/kernel_seconds.hpp"
#include "sim/hardware/network_model.hpp"

#include "backends/call.hpp"
#include "backends/collective_shape.hpp"
#include "backends/communicator.hpp"

#include "strategies/model/make_model.hpp"
#include "strategies/model/weight_gradient.hpp"
#include "strategies/sharding/context_parallel.hpp"
#include "strategies/sharding/tensor_parallel.hpp"

#include "sim/search/candidate_bound.hpp"

namespace shardsim {
namespace {

// The compute stream of the only rank.
struct ProbeClock {
  Time now;
  Time waited;  // The part of it spent in communication.
};

// A group of ranks as its first member sees it if all others do the same at the same moment: every
// call starts at once on a stream of its own, takes the network's time, and moves nothing. That is
// its least cost in a run, where others may come later.
class PricedGroup final : public Communicator, private WorkOwner {
 public:
  // All outlive the group. `network` null: calls take no time.
  PricedGroup(ProbeClock& clock, NetworkModel* network, const GroupLayout& layout,
              Algorithm algorithm, std::string name)
      : clock_(clock),
        network_(network),
        layout_(layout),
        tree_(layout),
        algorithm_(algorithm),
        name_(std::move(name)) {}

  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return layout_.size(); }
  [[nodiscard]] const std::string& name() const override { return name_; }

  Work post(const Call& call) override {
    Time duration;
    if (network_ != nullptr && call.kind == CallKind::collective) duration = duration_of(call);
    for (const P2pOp& half : call.halves) duration = max(duration, transfer(half));
    return take(duration, *call.options);
  }

  // Throws an internal Error: groups of groups are not probed.
  [[nodiscard]] std::unique_ptr<Communicator> split(int /*color*/, int /*key*/,
                                                    const std::string& name,
                                                    CallSite /*site*/) override {
    throw Error(ExitCode::internal, "E7008", "the probe of " + name_ + " is split for " + name,
                "please report this scenario");
  }

 private:
  void wait(void* operation) override {
    const Time then = max(clock_.now, *static_cast<Time*>(operation));
    clock_.waited += then - clock_.now;
    clock_.now = then;
  }

  void abandon(void* /*operation*/) noexcept override {}

  [[nodiscard]] Work take(Time duration, const CallOptions& options) {
    const Time ready =
        options.after == nullptr ? clock_.now : *static_cast<Time*>(options.after->operation());
    free_ = max(free_, ready) + duration;
    return {*this, &ends_.emplace_back(free_)};
  }

  [[nodiscard]] Time duration_of(const Call& call) const {
    const CollectiveRow& row = row_of(call.collective);
    if (row.path == CollectivePath::star || row.path == CollectivePath::none) return {};
    const std::int64_t width = size_of(call.record.dtype);
    CollectiveRequest request = request_of({.row = &row,
                                            .size = size(),
                                            .count = call.record.count,
                                            .width = width,
                                            .counts = call.options->counts},
                                           layout_, &tree_, algorithm_);
    if (row.path == CollectivePath::pairs) {
      // A run counts no bytes of the whole buffer; the largest part decides.
      request.largest_chunk =
          std::max(call.input->numel() / size(),
                   *std::max_element(call.send_counts.begin(), call.send_counts.end())) *
          width;
    }
    return network_->collective(request, clock_.now).duration;
  }

  [[nodiscard]] Time transfer(const P2pOp& half) const {
    if (network_ == nullptr) return {};
    return network_->transfer(layout_.members[0],
                              layout_.members[static_cast<std::size_t>(half.peer)],
                              half.buffer.num_bytes(), clock_.now);
  }

  ProbeClock& clock_;
  NetworkModel* network_;
  const GroupLayout& layout_;
  DoubleTree tree_;
  Algorithm algorithm_;
  std::string name_;
  Time free_;              // The time at which the stream is free.
  std::deque<Time> ends_;  // The ends of all calls: addresses stay.
};

// The compute stream and memory of one rank. The host costs nothing: it may be far ahead.
class ProbeRuntime final : public Runtime {
 public:
  ProbeRuntime(const Device& device, ProbeClock& clock) : prices_(device), clock_(clock) {}

  [[nodiscard]] bool has_data() const override { return false; }
  [[nodiscard]] MemoryLedger* ledger() override { return &ledger_; }

 protected:
  void charge(const ComputeOp& op) override { clock_.now += prices_.price(op).device; }

 private:
  PriceCache prices_;
  ProbeClock& clock_;
  RollingHash hash_;
  MemoryLedger ledger_{hash_};
};

// Weights and gradients that exist outside the ledger.
class PresentParameters final : public Parameters {
 public:
  PresentParameters(const Model& model, DType gradient_dtype)
      : model_(model), gradient_dtype_(gradient_dtype) {}

  [[nodiscard]] Tensor weight(int index) override { return tensor(index, model_.dtype()); }
  [[nodiscard]] Tensor gradient(int index) override { return tensor(index, gradient_dtype_); }
  void gradient_ready(int /*index*/) override {}

 private:
  [[nodiscard]] Tensor tensor(int index, DType dtype) const {
    const Shape& shape = model_.parameters()[static_cast<std::size_t>(index)].shape;
    return Tensor::allocate(nullptr, MemoryCategory::params, shape, dtype, /*meta=*/true);
  }
  const Model& model_;
  DType gradient_dtype_;
};

ModelOptions options_for(const Experiment& base, const LayerKey& key) {
  ModelOptions options = base.options().model;
  options.tensor_parallel = static_cast<int>(key.tp);
  options.context_parallel = static_cast<int>(key.cp);
  options.sequence_parallel = key.sequence_parallel;
  options.recompute = key.recompute;
  // Groups within groups are not probed: another form computes no more than two levels do.
  options.context_attention = context_attention_row(options.context_attention).probed_as;
  return options;
}

// One block, and in place of experts the smallest MLP that tp divides.
ModelOptions one_block(ModelOptions options) {
  options.num_layers = 1;
  if (options.moe.num_experts > 0) {
    options.moe = {};
    options.ffn_hidden_size = options.tensor_parallel;
  }
  return options;
}

class Probe {
 public:
  Probe(const Experiment& base, NetworkModel& network, const LayerKey& key)
      : model_(make_model(one_block(options_for(base, key)))),
        samples_(key.micro_batch_size),
        runtime_(base.cluster().device, clock_),
        parameters_(*model_, base.options().sync.gradient_dtype) {
    const Cluster& cluster = base.cluster();
    // With tp fastest, groups are the same on every machine, whatever the other axes are.
    const MeshShape mesh{
        .tp = static_cast<int>(key.tp), .cp = static_cast<int>(key.cp), .order = base.mesh().order};
    const Algorithm algorithm = base.world().all_reduce_algorithm;
    // If data-parallel ranks are neighbours, each layout has its groups at other places.
    NetworkModel* const priced = mesh.order == RankOrder::tp_dp_pp ? &network : nullptr;
    const ModelOptions options = options_for(base, key);
    if (mesh.tp > 1) {
      std::vector<int> members;
      for (int tp = 0; tp < mesh.tp; ++tp) members.push_back(mesh.rank_of({.tp = tp}));
      tp_layout_.emplace(cluster, std::move(members));
      tp_group_.emplace(clock_, priced, *tp_layout_, algorithm, "tp");
      tensor_.emplace(*tp_group_, key.sequence_parallel);
    }
    if (mesh.cp > 1) {
      std::vector<int> members;
      for (int cp = 0; cp < mesh.cp; ++cp) members.push_back(mesh.rank_of({.cp = cp}));
      cp_layout_.emplace(cluster, std::move(members));
      const bool is_free = base.options().model.context_attention != options.context_attention;
      cp_group_.emplace(clock_, is_free ? nullptr : priced, *cp_layout_, algorithm, "cp");
      context_.emplace(*cp_group_, options.context_attention, options.ulysses_degree);
    }
    part_ = {0, mesh.cp};
  }

  void run(LayerCosts& costs) {
    costs.message =
        model_->activation_shape(samples_).numel() * std::int64_t{size_of(model_->dtype())};
    const std::array<ModuleCost*, 3> modules = {&costs.embedding, &costs.block, &costs.head};
    pass(modules, false);
    std::array<std::int64_t, 3> waiting{};
    for (std::size_t i = 0; i < modules.size(); ++i) waiting.at(i) = modules.at(i)->waiting;
    pass(modules, true);
    // The longer waiting of both passes leaves least room for other communication: sound for both.
    for (std::size_t i = 0; i < modules.size(); ++i) {
      modules.at(i)->waiting = std::max(modules.at(i)->waiting, waiting.at(i));
    }
    // The next module owns the output that is handed on.
    costs.embedding.kept -= costs.message;
  }

 private:
  [[nodiscard]] ModelContext context() {
    return {runtime_,
            parameters_,
            {.tensor = tensor_ ? &*tensor_ : nullptr, .context = context_ ? &*context_ : nullptr}};
  }

  void pass(const std::array<ModuleCost*, 3>& costs, bool splits) {
    const Batch batch = model_->make_batch(runtime_, 1, 0, samples_, 0.0, part_);
    std::array<Saved, 3> saved;
    Tensor x;
    for (int module = 0; module < 3; ++module) {
      const auto i = static_cast<std::size_t>(module);
      const Time begin = clock_.now;
      const Time waited = clock_.waited;
      const std::int64_t held = runtime_.ledger()->total_now();
      x = model_->forward(module, context(), std::exchange(x, Tensor()), batch, saved[i]);
      costs[i]->forward = (clock_.now - begin).picoseconds();
      costs[i]->waiting = (clock_.waited - waited).picoseconds();
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
    const std::int64_t held = runtime_.ledger()->total_now();
    runtime_.ledger()->reset_peaks();
    Tensor result = model_->backward(module, here, gradient, batch, saved);
    const std::int64_t taken = (clock_.now - begin).picoseconds();
    cost.waiting += (clock_.waited - waited).picoseconds();
    if (!splits) {
      cost.backward = taken;
      cost.transient = runtime_.ledger()->peak() - held;
      return result;
    }
    cost.backward_input = taken;
    begin = clock_.now;
    model_->run_weight_gradients(later, context());
    cost.backward_weight = (clock_.now - begin).picoseconds();
    return result;
  }

  std::unique_ptr<Model> model_;
  std::int64_t samples_;
  ProbeClock clock_;
  ProbeRuntime runtime_;
  PresentParameters parameters_;
  SequencePart part_;
  std::optional<GroupLayout> tp_layout_;
  std::optional<GroupLayout> cp_layout_;
  std::optional<PricedGroup> tp_group_;
  std::optional<PricedGroup> cp_group_;
  std::optional<TensorParallel> tensor_;
  std::optional<ContextParallel> context_;
};

WeightCounts weights_of(const Model& model, int module) {
  WeightCounts counts;
  for (const int index : model.parameters_of(module)) {
    const ParameterSpec& spec = model.parameters()[static_cast<std::size_t>(index)];
    (spec.expert && spec.is_split() ? counts.expert : counts.dense) += spec.shape.numel();
  }
  return counts;
}

void count_weights(const Experiment& base, const LayerKey& key, LayerCosts& costs) {
  ModelOptions options = options_for(base, key);
  options.moe.expert_parallel = static_cast<int>(key.ep);
  options.num_layers = options.moe.num_experts > 0 ? options.moe.first_dense_layers + 1 : 1;
  const std::unique_ptr<Model> model = make_model(options);
  const int last_block = model->num_modules() - 2;
  costs.embedding_weights = weights_of(*model, 0);
  costs.dense_block_weights = weights_of(*model, 1);
  costs.block_weights = weights_of(*model, last_block);
  costs.head_weights = weights_of(*model, last_block + 1);
  if (!options.tied_embeddings) return;
  const int table = model->parameters_of(0).front();
  costs.tied_table = model->parameters()[static_cast<std::size_t>(table)].shape.numel();
  costs.head_weights.dense -= costs.tied_table;
}

// The least time of the MLPs of a block with experts. Every token passes this many of them, on any
// rank, and a layer ends when the busiest rank of its group does. `passes`: over the MLP.
std::int64_t expert_floor(const Experiment& base, const LayerKey& key, double passes) {
  const ModelSpec& m = base.scenario().model;
  if (m.num_experts == 0 || m.moe_capacity_factor > 0.0) return 0;
  constexpr double kFlopsPerWeight = 2.0;
  constexpr double kMatrices = 3.0;
  double width =
      static_cast<double>((m.num_experts_per_token + m.num_shared_experts) * m.moe_ffn_hidden_size);
  if (m.first_dense_layers > 0) width = std::min(width, static_cast<double>(m.ffn_hidden_size));
  const double tokens =
      static_cast<double>(key.micro_batch_size * m.seq_len) / static_cast<double>(key.cp * key.tp);
  const double flops =
      kFlopsPerWeight * kMatrices * tokens * width * static_cast<double>(m.hidden_size) * passes;
  constexpr double kPicoseconds = 1e12;
  const double peak = base.cluster().device.peak(base.options().model.dtype);
  return static_cast<std::int64_t>(flops / peak * kPicoseconds);
}

}  // namespace

LayerCosts probe_layers(const Experiment& base, NetworkModel& network, const LayerKey& key) {
  LayerCosts costs;
  Probe(base, network, key).run(costs);
  count_weights(base, key, costs);
  const double again = key.recompute == Recompute::full ? 1.0 : 0.0;
  costs.block.forward += expert_floor(base, key, 1.0);
  costs.block.backward += expert_floor(base, key, 2.0 + again);
  costs.block.backward_input += expert_floor(base, key, 1.0 + again);
  costs.block.backward_weight += expert_floor(base, key, 1.0);
  return costs;
}

}  // namespace shardsim
