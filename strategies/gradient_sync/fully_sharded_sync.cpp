#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "strategies/gradient_sync/narrow_weights.hpp"
#include "strategies/gradient_sync/owning_sync.hpp"

namespace shardsim {

namespace {

class FullyShardedSync final : public OwningSync {
 public:
  FullyShardedSync(const SyncPlan& plan, Runtime& runtime, Mesh& mesh)
      : OwningSync(plan, runtime, mesh, true),
        groups_(mesh.replicas(plan.kind)),
        units_(plan.layout->chunks().size()) {
    if (plan.narrow_weights) narrow_.emplace(plan, runtime, groups_.num_shards, true);
    const std::int64_t elements = narrow_ ? narrow_->kept() / groups_.num_shards : owned_.total();
    weights_ = allocate_home(runtime, plan.offload_parameters, MemoryCategory::params, {elements},
                             narrow_ ? DType::fp8_e4m3 : plan.weight_dtype);
    reducer_ = make_shard_reducer(plan, runtime, mesh, owned_);
    initialize();
    for (int chunk = 0; chunk < plan.model->num_chunks(); ++chunk) {
      const ModuleRange modules = plan.model->modules_of_chunk(chunk);
      chunk_of_module_.insert(chunk_of_module_.end(), to_size(modules.count), {modules, chunk});
    }
    for (int module = 0; module < plan.model->num_modules(); ++module) {
      for (const int unit : plan.model->units_of(module)) {
        ++units_[to_size(unit)].num_users;
        if (ends_with_chunk_of(unit, module)) ++units_[to_size(unit)].num_last_users;
      }
    }
  }

  FullyShardedSync(const FullyShardedSync&) = delete;
  FullyShardedSync& operator=(const FullyShardedSync&) = delete;
  // Units that are still gathered go last.
  ~FullyShardedSync() override { reducer_.reset(); }

  Tensor weight(int parameter) override {
    const FlatPlace& place = plan_.layout->place(parameter);
    if (narrow_) return shape_of_narrow(units_[to_size(place.chunk)].full, plan_, parameter);
    return units_[to_size(place.chunk)].full.view(place.offset, plan_.layout->shape(parameter));
  }
  [[nodiscard]] bool is_settled(int parameter) const override {
    return reducer_->is_settled(parameter);
  }
  [[nodiscard]] bool keeps_weights() const override { return false; }
  void gradient_ready(int) override {}  // A unit is reduced as a whole, after its backward.

  void begin_step() override { reducer_->begin_step(); }

  void begin_weight_gradients(int chunk, bool last) override {
    reducing_ = last || plan_.reduce_every_microbatch;
    const ModuleRange modules = plan_.model->modules_of_chunk(chunk);
    for (int module = modules.first; module < modules.first + modules.count; ++module) {
      for (const int unit : plan_.model->units_of(module)) {
        if (ends_with_chunk_of(unit, module)) units_[to_size(unit)].gradient_runs = 0;
      }
    }
  }

  void before_forward(int module) override { use(module, +1); }
  void after_forward(int module) override {
    for (const int number : plan_.model->units_of(module)) {
      Unit& unit = units_[to_size(number)];
      ++unit.runs_to_come_back;
      if (plan_.reshard_after_forward && unit.num_users == 1) unit.full = {};
    }
  }

  void before_backward(int module) override { use(module, -1); }
  void after_backward(int module) override {
    for (const int number : plan_.model->units_of(module)) {
      Unit& unit = units_[to_size(number)];
      // Another module, or in another chunk another microbatch, still needs it.
      if (--unit.runs_to_come_back > 0 && unit.num_users > 1) continue;
      unit.full = {};
    }
  }
  void after_weight_gradients(int module) override {
    for (const int number : plan_.model->units_of(module)) {
      if (!ends_with_chunk_of(number, module)) continue;
      Unit& unit = units_[to_size(number)];
      if (++unit.gradient_runs == unit.num_last_users && reducing_) reducer_->reduce(number);
    }
  }

  void finish_gradients() override { reducer_->finish(); }

  void apply_optimizer(double gradient_scale, std::int64_t step) override {
    const bool agrees = narrow_ && narrow_->has_common_scales();
    for (int unit = 0; unit < num_chunks(); ++unit) {
      OnDevice weights(runtime_, plan_.offload_parameters, MemoryCategory::params,
                       kept_weights(unit));
      owned_.update(unit, weights.tensor(), gradient_of(unit).tensor(), gradient_scale, step,
                    !agrees);
      weights.put_back();
    }
    if (!agrees) return;
    narrow_->agree_on_scales(runtime_, groups_.shard);
    for (int unit = 0; unit < num_chunks(); ++unit) owned_.cast(unit, kept_weights(unit));
  }

 private:
  struct Unit {
    Tensor full;      // Gathered weights; undefined while sharded.
    Tensor gathered;  // Their source, until they are copied; see SyncPlan::copies_units.
    Work gather;      // Pending until first used.
    int num_users = 0;
    int num_last_users = 0;     // Those in the chunk whose backward completes its gradients.
    int runs_to_come_back = 0;  // Forwards of its users whose backward has not run.
    int gradient_runs = 0;      // Last users whose weight gradients are there, of a microbatch.
  };
  struct ModuleChunk {
    ModuleRange modules;
    int chunk = 0;
  };

  // Whether the gradients of a unit are complete with the chunk of this module; with tied
  // embeddings another chunk may read it, too, which ends before.
  [[nodiscard]] bool ends_with_chunk_of(int unit, int module) const {
    return plan_.layout->chunk(unit).model_chunk == chunk_of_module_[to_size(module)].chunk;
  }

  // This rank's shard of a unit's weights.
  [[nodiscard]] Tensor kept_weights(int unit) const {
    if (!narrow_) return owned_.part_of_shards(weights_, unit);
    const std::int64_t shards = groups_.num_shards;
    return weights_.view(narrow_->first(unit) / shards, {narrow_->kept(unit) / shards});
  }
  // The same of what is gathered: one copy.
  [[nodiscard]] Tensor sent_weights(int unit) const {
    const Tensor kept = kept_weights(unit);
    return narrow_ ? kept.view(0, {narrow_->sent(unit) / groups_.num_shards}) : kept;
  }

  [[nodiscard]] HeldWeights held_weights(int unit) const override {
    return {owned_.begin(unit), kept_weights(unit)};
  }

  // Gathers the units of `module`, and those of the next ones of its chunk in the direction of the
  // pass, so that they are on their way while this module computes.
  void use(int module, int direction) {
    post_gathers(module);
    const ModuleRange& chunk = chunk_of_module_[to_size(module)].modules;
    const int ahead = plan_.overlap_gather ? plan_.prefetch_units : 0;
    for (int i = 1; i <= ahead; ++i) {
      const int next = module + i * direction;
      if (next >= chunk.first && next < chunk.first + chunk.count) post_gathers(next);
    }
    for (const int unit : plan_.model->units_of(module)) finish_gather(units_[to_size(unit)]);
  }

  void finish_gather(Unit& unit) {
    unit.gather.wait();
    if (!unit.gathered.defined()) return;
    unit.full = runtime_.allocate(MemoryCategory::params, unit.gathered.shape(), weights_.dtype());
    copy(unit.full, unit.gathered);
    unit.gathered = {};
  }

  void post_gathers(int module) {
    for (const int number : plan_.model->units_of(module)) {
      Unit& unit = units_[to_size(number)];
      if (unit.full.defined() || unit.gathered.defined()) continue;
      const FlatChunk& chunk = plan_.layout->chunk(number);
      const bool is_copied = plan_.copies_units && groups_.shard != nullptr;
      Tensor& to = is_copied ? unit.gathered : unit.full;
      to = runtime_.allocate(is_copied ? MemoryCategory::comm : MemoryCategory::params,
                             {narrow_ ? narrow_->sent(number) : chunk.padded}, weights_.dtype());
      Tensor shard = sent_weights(number);
      if (plan_.offload_parameters) {
        const Tensor part = owned_.part_of_bytes(to);
        runtime_.copy_over_host_link("copy_to_device", part, shard);
        shard = part;
      }
      if (groups_.shard == nullptr) {
        if (!plan_.offload_parameters) copy(to, shard);
      } else {
        unit.gather = groups_.shard->all_gather(
            to, shard, narrow_ ? narrow_->call_options(number) : chunk.call_options(mesh_.tp()));
      }
    }
  }

  void copy(const Tensor& to, const Tensor& from) {
    runtime_.compute(memory_op("copy_weights", to.dtype(), 2 * to.num_bytes()),
                     [&] { std::copy_n(from.data(), to_size(from.num_bytes()), to.data()); });
  }

  ReplicaGroups groups_;
  std::optional<NarrowWeights> narrow_;  // Shards are codes, and mixed with others.
  std::vector<Unit> units_;
  std::vector<ModuleChunk> chunk_of_module_;
  bool reducing_ = false;
};

}  // namespace

std::unique_ptr<GradientSync> make_fully_sharded_sync(const SyncPlan& plan, Runtime& runtime,
                                                      Mesh& mesh) {
  return std::make_unique<FullyShardedSync>(plan, runtime, mesh);
}

}  // namespace shardsim
