#include "sim/harness/training_program.hpp"

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

MeshShape mesh_of(const TrainingStrategy& strategy, const RankContext& context) {
  const int ranks = context.size();
  if (context.layout() != nullptr) return *context.layout();
  if (ranks == 1) return {};
  if (!strategy.mesh) return {.dp_shard = ranks};
  return strategy.mesh(ranks);
}

ParallelOptions options_of(const TrainingStrategy& strategy, const RankContext& context) {
  const MeshShape mesh = mesh_of(strategy, context);
  if (strategy.global_microbatches % mesh.data_size() != 0) {
    throw UsageError("E1210",
                     std::to_string(mesh.data_size()) + " data-parallel ranks do not divide " +
                         std::to_string(strategy.global_microbatches) + " microbatches",
                     "set TrainingStrategy::global_microbatches to a multiple of all numbers of "
                     "data-parallel ranks, so that the batch is the same at every layout");
  }
  ParallelOptions options;
  options.model = strategy.model;
  options.model.dtype = context.precision();
  options.mesh = mesh;
  options.zero_stage = context.size() == 1 ? 0 : strategy.zero_stage;
  options.bucket_bytes = strategy.bucket_bytes;
  options.first_bucket_bytes = strategy.first_bucket_bytes;
  options.schedule = strategy.schedule;
  options.num_chunks = mesh.pp == 1 ? 1 : strategy.num_chunks;
  options.training = {.steps = context.steps(),
                      .micro_batch_size = strategy.micro_batch_size,
                      .num_microbatches = strategy.global_microbatches / mesh.data_size(),
                      .seed = context.seed(),
                      .ignore_fraction = strategy.ignore_fraction,
                      .max_grad_norm = strategy.max_grad_norm};
  options.sync = strategy.sync;
  options.sync.weight_dtype = context.precision();
  options.sync.gradient_dtype = context.precision();
  options.sync.master_dtype = context.precision();
  if (strategy.make_schedule && mesh.pp > 1) {
    options.own_schedule = strategy.make_schedule(shape_of(options));
  }
  return options;
}

// Shows what a rank holds, by the names and places of the whole model.
class Shower final : public TrainingObserver {
 public:
  Shower(RankContext& context, const ParallelPlan& plan, const Mesh& mesh)
      : context_(context), plan_(plan), part_(plan.part(mesh.place())) {}

  void step_begins(std::int64_t step) override { step_ = static_cast<int>(step); }
  void gradients_ready(std::int64_t, const GradientSync& sync) override {
    show(sync, StateKind::gradient, Shown::gradient);
  }
  void step_ends(std::int64_t, const GradientSync& sync, std::optional<double> loss) override {
    show(sync, StateKind::optimizer_state, Shown::optimizer_state);
    show(sync, StateKind::parameter, Shown::parameter);
    if (loss) context_.show(Shown::output, "loss", *loss, {.step = step_});
  }

 private:
  void show(const GradientSync& sync, StateKind kind, Shown what) {
    sync.visit(kind, [&](const StatePiece& piece) {
      for_each_whole_piece(part_, piece, [&](const WholePiece& whole) { show(what, whole.piece); });
    });
  }
  void show(Shown what, const StatePiece& piece) {
    const auto& specs = plan_.whole().parameters();
    const ParameterSpec& spec = specs[static_cast<std::size_t>(piece.parameter)];
    std::string name(spec.name);
    if (!piece.state.empty()) name += " (" + std::string(piece.state) + ")";
    context_.show(what, name, piece.values,
                  {.first = piece.first, .whole = spec.shape.numel(), .step = step_});
  }

  RankContext& context_;
  const ParallelPlan& plan_;
  ModelPart part_;
  int step_ = 0;
};

}  // namespace

ModelOptions TrainingStrategy::default_model() {
  ModelOptions model;
  model.family = "mlp";
  model.num_layers = 2;
  model.hidden_size = 6;
  model.ffn_hidden_size = 14;
  model.vocab_size = 5;
  return model;
}

Program training_program(const TrainingStrategy& strategy) {
  return [strategy](RankContext& context) {
    const std::unique_ptr<Optimizer> optimizer =
        make_optimizer(strategy.optimizer, strategy.optimizer_options);
    // Each rank makes its own: a program keeps nothing that ranks, or runs, share.
    const ParallelPlan plan(options_of(strategy, context), *optimizer);
    Mesh mesh(context.world(), plan.options().mesh);
    const bool own = strategy.make_sync && context.size() > 1;
    const std::unique_ptr<GradientSync> sync =
        own ? strategy.make_sync(plan.sync_plan(mesh.pp()), context.runtime(), mesh)
            : plan.make_sync(context.runtime(), mesh);
    Shower shower(context, plan, mesh);
    plan.train_rank(context.runtime(), mesh, *sync, shower);
  };
}

}  // namespace shardsim
