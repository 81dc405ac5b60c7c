#include "strategies/sharded_optimizer/sharded_model.hpp"

#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "sim/kernel/error.hpp"

#include "strategies/gradient_sync/compressors.hpp"
#include "strategies/gradient_sync/gradient_sync_wrapper.hpp"

namespace shardsim {

namespace {

// Any gradient synchronization, but nothing is reduced before finish_gradients: until then every
// rank has the whole gradient of its own data. REQUIRES: a plan that does not reduce every
// microbatch.
class DeferredSync final : public GradientSyncWrapper {
 public:
  // `inner` and `model`, the one it works on, must outlive it.
  DeferredSync(GradientSync& inner, const Model& model)
      : GradientSyncWrapper(inner), model_(model) {}

  void begin_weight_gradients(int chunk, bool /*last*/) override {
    inner_.begin_weight_gradients(chunk, false);
  }
  // Tells the inner one what a last microbatch would, without computing anything.
  void finish_gradients() override {
    for (int chunk = model_.num_chunks(); chunk-- > 0;) {
      inner_.begin_weight_gradients(chunk, true);
      const ModuleRange modules = model_.modules_of_chunk(chunk);
      for (int i = modules.count; i-- > 0;) inner_.after_weight_gradients(modules.first + i);
    }
    inner_.finish_gradients();
  }

 private:
  const Model& model_;
};

ParallelOptions options_of(ParallelOptions problem, const ParallelChoice& choice,
                           const ShardingConfiguration& configuration, int world_size) {
  if (problem.sync.muon) {
    throw UsageError("E0704", "a sharded model is saved without the settings of muon",
                     "train with muon by a ParallelPlan, or leave ParallelOptions::sync.muon out");
  }
  problem.mesh = mesh_of(choice, world_size);
  problem.zero_stage = choice.zero_stage;
  validate(configuration, choice.zero_stage);
  problem.minimum_group_numel = configuration.minimum_parameter_group_size;
  problem.sync.offload_optimizer = configuration.cpu_offload_optimizer;
  problem.sync.offload_gradients = configuration.cpu_offload_gradients;
  problem.sync.offload_parameters = configuration.cpu_offload_parameters;
  problem.sync.local = choice.local;
  problem.sync.compression = choice.compression;
  problem.sync.max_staleness = choice.max_staleness;
  if (configuration.enable_gradient_compression && !choice.compression.acts()) {
    problem.sync.compression.compressor = &int8_blocks();
  }
  if (!configuration.auto_sync_gradients) problem.sync.reduce_every_microbatch = false;
  return problem;
}

const Optimizer& chosen(const Optimizer* given, const std::unique_ptr<Optimizer>& own) {
  return given != nullptr ? *given : *own;
}

std::unique_ptr<Optimizer> own_sgd(const Optimizer* given, double learning_rate) {
  if (given != nullptr) return nullptr;
  return make_optimizer(plain_optimizer(), {.learning_rate = learning_rate});
}

void copy_bytes(const Tensor& to, const Tensor& from) {
  std::memcpy(to.data(), from.data(), to_size(from.num_bytes()));
}

}  // namespace

ShardingConfiguration high_bandwidth_configuration() {
  return {.minimum_parameter_group_size = 512};
}

ShardingConfiguration low_bandwidth_configuration() {
  return {.minimum_parameter_group_size = 4096, .enable_gradient_compression = true};
}

ShardingConfiguration zero_offload_configuration() {
  return {.cpu_offload_optimizer = true, .cpu_offload_gradients = true};
}

ShardingConfiguration zero_offload_full_configuration() {
  return {
      .cpu_offload_optimizer = true, .cpu_offload_gradients = true, .cpu_offload_parameters = true};
}

void validate(const ShardingConfiguration& configuration, int zero_stage) {
  const auto needs = [&](const std::string& wanted, const char* where) {
    return wanted + ", the stage is " + std::to_string(zero_stage) + where;
  };
  if (!(configuration.learning_rate > 0.0 && !std::isinf(configuration.learning_rate))) {
    throw UsageError("E0773", "learning_rate is " + std::to_string(configuration.learning_rate),
                     "give a positive, finite rate");
  }
  if (configuration.minimum_parameter_group_size < 0) {
    throw UsageError("E0774",
                     "minimum_parameter_group_size is " +
                         std::to_string(configuration.minimum_parameter_group_size),
                     "give a number of elements, 0 or more");
  }
  if (configuration.enable_gradient_compression && zero_stage != 0) {
    throw UsageError(
        "E0775",
        needs("enable_gradient_compression needs ZeRO stage 0", ", whose ranks reduce shards"),
        "choose DDP, or switch it off; the low-bandwidth preset sets it");
  }
  if (configuration.cpu_offload_gradients && zero_stage < 2) {
    throw UsageError("E0776",
                     needs("cpu_offload_gradients needs ZeRO stage 2 or 3",
                           ", where gradients are whole and reduced in place"),
                     "choose ZeRO-2 or FSDP, or keep gradients on the device");
  }
  if (configuration.cpu_offload_parameters && zero_stage != 3) {
    throw UsageError("E0777",
                     needs("cpu_offload_parameters needs ZeRO stage 3",
                           ", where every rank computes with all of them"),
                     "choose FSDP, or keep parameters on the device");
  }
}

ShardedModel::ShardedModel(Runtime& runtime, Communicator& world, const ParallelOptions& problem,
                           const ParallelChoice& choice, const ShardingConfiguration& configuration,
                           const Optimizer* optimizer)
    : runtime_(runtime),
      world_(world),
      configuration_(configuration),
      own_optimizer_(own_sgd(optimizer, configuration.learning_rate)),
      plan_(options_of(problem, choice, configuration, world.size()),
            chosen(optimizer, own_optimizer_)),
      mesh_(world, plan_.options().mesh),
      sync_(plan_.make_sync(runtime, mesh_)),
      parallel_(plan_.make_parallel(mesh_)) {
  if (!configuration.auto_sync_gradients) {
    deferred_ = std::make_unique<DeferredSync>(*sync_, *plan_.part(mesh_.place()).model);
  }
  session_ = plan_.make_session(runtime, mesh_, deferred_ ? *deferred_ : *sync_, parallel_.ends(),
                                observer_);
}

ShardedModel::~ShardedModel() = default;

std::vector<ParameterShard> ShardedModel::local_parameter_shard() const {
  std::vector<StatePiece> held(plan_.part(mesh_.place()).model->parameters().size());
  sync_->visit(StateKind::parameter,
               [&](const StatePiece& piece) { held[to_size(piece.parameter)] = piece; });
  std::vector<ParameterShard> shards;
  for_each_responsible_run(plan_, mesh_.place(), [&](const ResponsibleRun& run) {
    const StatePiece& piece = held[to_size(run.local)];
    shards.push_back({run.whole, run.whole_first,
                      piece.values.view(run.local_first - piece.first, {run.count})});
  });
  return shards;
}

std::vector<Tensor> ShardedModel::gather_full_parameters() {
  std::vector<std::int64_t> counts;
  std::int64_t total = 0;
  for (int member = 0; member < world_size(); ++member) {
    const MeshPlace place = plan_.options().mesh.place_of(member);
    std::int64_t& count = counts.emplace_back(0);
    for_each_responsible_run(plan_, place, [&](const ResponsibleRun& run) { count += run.count; });
    total += count;
  }
  const DType dtype = plan_.options().sync.weight_dtype;
  std::vector<Tensor> whole;
  for (const ParameterSpec& spec : wrapped_model().parameters()) {
    whole.push_back(runtime_.allocate(MemoryCategory::params, spec.shape, dtype));
  }
  const Tensor own = pack_own_shard(counts[to_size(rank())]);
  const Tensor gathered = runtime_.allocate(MemoryCategory::comm, {total}, dtype);
  world_.all_gather(gathered, own, {.label = "full parameters", .counts = counts}).wait();
  unpack(gathered, whole);
  return whole;
}

Tensor ShardedModel::pack_own_shard(std::int64_t count) {
  const DType dtype = plan_.options().sync.weight_dtype;
  const Tensor own = runtime_.allocate(MemoryCategory::comm, {count}, dtype);
  const bool on_host = configuration_.cpu_offload_parameters;
  const ComputeOp op{"pack_parameters",
                     on_host ? ComputeKind::host_transfer : ComputeKind::memory_bound, dtype, 0,
                     (on_host ? 1 : 2) * own.num_bytes()};
  runtime_.compute(op, [&] {
    std::int64_t at = 0;
    for (const ParameterShard& shard : local_parameter_shard()) {
      copy_bytes(own.view(at, {shard.values.numel()}), shard.values);
      at += shard.values.numel();
    }
  });
  return own;
}

void ShardedModel::unpack(const Tensor& gathered, const std::vector<Tensor>& whole) const {
  runtime_.compute(memory_op("unpack_parameters", gathered.dtype(), 2 * gathered.num_bytes()), [&] {
    std::int64_t at = 0;
    for (int member = 0; member < world_size(); ++member) {
      const MeshPlace place = plan_.options().mesh.place_of(member);
      for_each_responsible_run(plan_, place, [&](const ResponsibleRun& run) {
        const Tensor& parameter = whole[to_size(run.whole)];
        copy_bytes(parameter.view(run.whole_first, {run.count}), gathered.view(at, {run.count}));
        at += run.count;
      });
    }
  });
}

std::int64_t ShardedModel::global_batch_size() const {
  const TrainingPlan& training = plan_.options().training;
  return training.micro_batch_size * training.num_microbatches * mesh_.data_size();
}

void ShardedModel::require_no_gradients(const char* function) const {
  if (gradients_ == Gradients::none) return;
  throw UsageError("E0779",
                   concat(function, ": the gradients of step ", steps_, " were not applied yet"),
                   "call apply_gradients before");
}

void ShardedModel::require_one_model(const char* function) const {
  const SyncPlan& sync = plan_.options().sync;
  const bool keeps_residuals = sync.compression.acts() && sync.compression.error_feedback;
  if (!sync.local.acts() && !keeps_residuals && sync.max_staleness == 0) return;
  throw UsageError("E0797",
                   std::string(function) +
                       ": replicas that train apart, residuals of compressed gradients and "
                       "gradients under way are no part of one model, and would be lost",
                   "train synchronously from where state is to be saved");
}

void ShardedModel::compute_gradients() {
  require_no_gradients("compute_gradients");
  session_->compute_gradients(steps_);
  gradients_ = Gradients::local;
  if (configuration_.auto_sync_gradients) synchronize_gradients();
}

void ShardedModel::synchronize_gradients() {
  require(Gradients::local, "synchronize_gradients");
  session_->reduce_gradients();
  gradients_ = Gradients::synchronized;
}

void ShardedModel::apply_gradients() {
  require(Gradients::synchronized, "apply_gradients");
  session_->update();
  gradients_ = Gradients::none;
  ++steps_;
}

double ShardedModel::train_step() {
  compute_gradients();
  if (gradients_ == Gradients::local) synchronize_gradients();
  apply_gradients();
  return session_->loss_everywhere();
}

void ShardedModel::require(Gradients state, const char* function) const {
  if (gradients_ == state) return;
  constexpr const char* kNames[] = {"there are none", "they are this rank's own",
                                    "they are synchronized"};
  throw UsageError("E0780",
                   concat(function, ": gradients of step ", steps_, ": ",
                          kNames[static_cast<std::size_t>(gradients_)]),
                   "call compute_gradients, then synchronize_gradients unless gradients are "
                   "synchronized automatically, then apply_gradients");
}

std::unique_ptr<ShardedModel> make_sharded_model(std::string_view name, Runtime& runtime,
                                                 Communicator& world,
                                                 const ParallelOptions& problem,
                                                 const ShardingConfiguration& configuration) {
  return std::make_unique<ShardedModel>(runtime, world, problem, choice_of(name, world.size()),
                                        configuration);
}

std::unique_ptr<ShardedModel> make_hybrid_sharded_model(Runtime& runtime, Communicator& world,
                                                        const ParallelOptions& problem,
                                                        const ShardingConfiguration& configuration,
                                                        int pp, int tp, int dp) {
  return std::make_unique<ShardedModel>(runtime, world, problem, hybrid_sharded(pp, tp, dp),
                                        configuration);
}

}  // namespace shardsim
