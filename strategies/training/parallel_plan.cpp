#include "strategies/training/parallel_plan.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "sim/kernel/error.hpp"

#include "strategies/gradient_sync/matrix_update.hpp"
#include "strategies/pipeline/lower.hpp"
#include "strategies/pipeline/validate.hpp"
#include "strategies/sharding/context_parallel.hpp"
#include "strategies/sharding/expert_parallel.hpp"
#include "strategies/sharding/tensor_parallel.hpp"

namespace shardsim {

namespace {

std::unique_ptr<Model> part_of(ModelOptions model, const MeshShape& mesh) {
  if (mesh.tp == 1 && mesh.cp == 1 && mesh.expert_parts() == 1) return nullptr;
  model.tensor_parallel = mesh.tp;
  model.context_parallel = mesh.cp;
  model.moe.expert_parallel = mesh.ep;
  model.moe.expert_tensor_parallel = mesh.etp;
  return make_model(model);
}

ModelOptions without_parallelism(ModelOptions model) {
  model.tensor_parallel = 1;
  model.context_parallel = 1;
  model.sequence_parallel = false;
  model.moe.expert_parallel = 1;
  model.moe.expert_tensor_parallel = 1;
  return model;
}

// Stages are the same modules on every tensor-parallel rank and on one device.
void require_same_modules(const Model* part, const Model& whole, const ParallelOptions& options) {
  const bool is_cut = options.mesh.pp > 1 || options.num_chunks > 1;
  if (part == nullptr || !is_cut || part->num_modules() == whole.num_modules()) return;
  throw UsageError("E0784",
                   concat("tensor parallelism joins the ", whole.num_modules(), " modules of ",
                          options.model.family, " to ", part->num_modules(),
                          ", which cannot be cut into the stages of a pipeline"),
                   "use tp = 1 or pp = 1 for this model, or a transformer");
}

// Stages allocate what they get from each other by the one, and compute it by the other.
void require_same_dtype(const ParallelOptions& options) {
  if (options.model.dtype != options.sync.weight_dtype) {
    throw UsageError("E0787",
                     concat("the model computes in ", name_of(options.model.dtype),
                            ", but its weights are kept in ", name_of(options.sync.weight_dtype)),
                     "give both the same dtype; master weights may have another");
  }
}

// The cell of the rank after which a chunk's weight gradients are complete.
std::size_t end_of_chunk(const PipelineSchedule& schedule, int rank, int chunk) {
  const std::vector<Action>& cells = schedule.actions[to_size(rank)];
  std::size_t end = 0;
  for (std::size_t cell = 0; cell < cells.size(); ++cell) {
    if (releases_activation(cells[cell].kind) && cells[cell].chunk == chunk) end = cell;
  }
  return end;
}

// A weight that two chunks of a rank read (tied embeddings in V placement) is reduced with the
// first of them, so that must end last, as it does wherever W are not put off out of order.
void require_shared_last(const PipelineSchedule& schedule, int rank, const Model& model) {
  for (int chunk = 1; chunk < model.num_chunks(); ++chunk) {
    const ModuleRange& modules = model.modules_of_chunk(chunk);
    for (int module = modules.first; module < modules.first + modules.count; ++module) {
      for (const int parameter : model.parameters_of(module)) {
        const ParameterSpec& spec = spec_of(model, parameter);
        if (spec.chunk == chunk ||
            end_of_chunk(schedule, rank, chunk) < end_of_chunk(schedule, rank, spec.chunk)) {
          continue;
        }
        throw UsageError("E0761",
                         concat("the schedule ", schedule.name, " ends chunk ", spec.chunk,
                                " of rank ", rank, " before chunk ", chunk, ", but ", spec.name,
                                " is read in both, and reduced when the former ends"),
                         "put the last W of the later chunk before that of the earlier, or untie "
                         "the embeddings");
      }
    }
  }
}

// For a plan whose parts are used from outside: all ranks take part in every step.
void require_all_ranks(const ParallelOptions& options) {
  if (!options.members.empty()) {
    throw UsageError("E0796", "a rank's parts of an elastic training change with its members",
                     "call train_rank with an observer alone, or leave members empty");
  }
}

ParallelOptions validated(ParallelOptions options) {
  validate(options);
  return options;
}

// Stages, data and layouts are made by the options' shape, and only the order of the work by the
// schedule: one of another shape would train something else, or read past the end of a list.
void require_shape(const PipelineSchedule& own, const PipelineShape& asked) {
  struct Dimension {
    const char* name;
    int PipelineShape::*size;
    const char* option;
  };
  constexpr std::array<Dimension, 3> kDimensions = {{
      {"num_ranks", &PipelineShape::num_ranks, "mesh.pp"},
      {"num_chunks", &PipelineShape::num_chunks, "num_chunks"},
      {"num_microbatches", &PipelineShape::num_microbatches, "training.num_microbatches"},
  }};
  std::string differences;
  for (const Dimension& dimension : kDimensions) {
    if (own.shape.*dimension.size == asked.*dimension.size) continue;
    differences +=
        concat(differences.empty() ? "" : ", ", dimension.name, " is ", own.shape.*dimension.size,
               " where ", dimension.option, " is ", asked.*dimension.size);
  }
  if (differences.empty()) return;
  throw UsageError(
      "E0789",
      "own_schedule \"" + own.name + "\" has another shape than the options: " + differences,
      "make the schedule for shape_of(options), or change the options");
}

// The options' schedule, their own or the named one, validated and with communication in it: one
// of their own that has sends and receives already keeps them. Throws UsageError for one that is
// not theirs, CommunicationError for one that cannot run.
PipelineSchedule lowered_schedule(const ParallelOptions& options) {
  const PipelineShape shape = shape_of(options);
  if (options.own_schedule) require_shape(*options.own_schedule, shape);
  const PipelineSchedule schedule =
      options.own_schedule ? *options.own_schedule : make_schedule(options.schedule, shape);
  require_valid(schedule);
  return schedule.is_lowered() ? schedule : lower(schedule);
}

// A shard's owner iterates its matrices.
void add_matrices(std::vector<std::int64_t>& signature, const Model& model,
                  const FlatLayout& layout, int chunk, const ElementRange& shard) {
  for_each_matrix(model, layout, chunk, shard.begin, shard.end, [&](const ChunkMatrix& matrix) {
    const std::int64_t behind = matrix.first + matrix.part.numel();
    signature.insert(signature.end(),
                     {matrix.part.rows, matrix.part.columns, matrix.part.cut_axis, matrix.copies,
                      std::min(behind, shard.end) - std::max(matrix.first, shard.begin)});
  });
}

}  // namespace

RankParallel::RankParallel(const ModelOptions& options, Mesh& mesh) {
  if (mesh.tp_group() != nullptr) {
    tensor_ = std::make_unique<TensorParallel>(*mesh.tp_group(), options.sequence_parallel,
                                               options.overlaps_tensor_parallel);
  }
  if (mesh.cp_group() != nullptr) {
    context_ = std::make_unique<ContextParallel>(*mesh.cp_group(), options.context_attention,
                                                 options.ulysses_degree);
  }
  if (options.moe.num_experts > 0) {
    expert_ = std::make_unique<ExpertParallel>(mesh, options.sequence_parallel);
  }
  if (options.moe.num_experts > 0 && options.moe.router.has_choice_bias()) {
    router_biases_ = std::make_unique<RouterBiases>();
  }
  if (options.low.recipe == ScalingRecipe::delayed) {
    delayed_scales_ = std::make_unique<DelayedScales>(options.low);
  }
}

RankParallel::RankParallel(RankParallel&&) noexcept = default;
RankParallel::~RankParallel() = default;

ModelParallel RankParallel::ends() const {
  return {.tensor = tensor_.get(),
          .context = context_.get(),
          .expert = expert_.get(),
          .router_biases = router_biases_.get(),
          .delayed_scales = delayed_scales_.get()};
}

PipelineShape shape_of(const ParallelOptions& options) {
  return {options.mesh.pp, options.num_chunks, static_cast<int>(options.training.num_microbatches)};
}

ParallelPlan::ParallelPlan(ParallelOptions options, const Optimizer& optimizer)
    : options_(validated(std::move(options))),
      whole_(make_model(without_parallelism(options_.model))),
      part_(part_of(options_.model, options_.mesh)),
      schedule_(lowered_schedule(options_)) {
  options_.mesh.v_placement = schedule_.placement == Placement::v;
  options_.mesh.tp_copies = part_ ? tensor_copies_of(*part_) : std::vector<int>();
  options_.mesh.joins_tp_parts = joins_tensor_parts(options_.sync);
  require_same_modules(part_.get(), *whole_, options_);
  require_same_dtype(options_);
  require_fitting_choice(options_);
  options_.training.replicas_apart = options_.sync.local.acts();
  options_.sync.model = whole_.get();
  options_.sync.cut_model = part_.get();
  options_.sync.optimizer = &optimizer;
  options_.sync.seed = options_.training.seed;
  StageSplit split = options_.stage_split;
  split.num_ranks = options_.mesh.pp;
  split.placement = schedule_.placement;
  const std::vector<ModuleRange> ranges = split_modules(*whole_, schedule_.num_stages(), split);
  for (int rank = 0; rank < options_.mesh.pp; ++rank) add_stage(rank, ranges);
}

void ParallelPlan::add_stage(int rank, const std::vector<ModuleRange>& ranges) {
  const auto stage_of = [&](const Model& model) -> std::unique_ptr<StageModel> {
    if (schedule_.num_stages() == 1) return nullptr;
    std::vector<ModuleRange> chunks;
    for (int chunk = 0; chunk < options_.num_chunks; ++chunk) {
      chunks.push_back(ranges[to_size(schedule_.stage_of(rank, chunk))]);
    }
    return std::make_unique<StageModel>(model, chunks);
  };
  const Model& model = part_ ? *part_ : *whole_;
  std::unique_ptr<StageModel> own = stage_of(model);
  const Model& stage_model = own ? *own : model;
  if (own) require_shared_last(schedule_, rank, *own);
  // The same modules of one device.
  const std::unique_ptr<StageModel> uncut = part_ ? stage_of(*whole_) : nullptr;
  const Model* whole_here = &stage_model;
  if (part_) whole_here = uncut ? uncut.get() : whole_.get();
  std::unique_ptr<GroupedUnits> grouped;
  if (options_.zero_stage == 3 && options_.minimum_group_numel > 0) {
    grouped = std::make_unique<GroupedUnits>(stage_model, options_.minimum_group_numel);
  }
  const Model& here = grouped ? *grouped : stage_model;
  stages_.push_back(std::make_unique<Stage>(
      Stage{std::move(own),
            std::move(grouped),
            make_layout(options_.zero_stage, here, *whole_here, options_.mesh,
                        options_.sync.gradient_dtype, options_.bucket_bytes,
                        options_.first_bucket_bytes, options_.minimum_group_numel,
                        WeightKind::dense, matrix_buckets_of(options_.sync, options_.zero_stage)),
            options_.sync,
            {.model = &here,
             .schedule = &schedule_,
             .micro_batch_size = options_.training.micro_batch_size,
             .apart_gradient_bytes = options_.model.memory.apart_gradient_bytes,
             .replicas_apart = options_.training.replicas_apart,
             .offload = options_.offload,
             .delays_weight_gradients = options_.delays_weight_gradients},
            nullptr}));
  Stage& stage = *stages_.back();
  stage.sync.model = &here;
  stage.sync.layout = &stage.layout;
  if (options_.mesh.experts_apart()) split_off_experts(stage, *whole_here);
}

void ParallelPlan::split_off_experts(Stage& stage, const Model& uncut) const {
  const UnitsOfKind dense(*stage.plan.model, WeightKind::dense);
  const UnitsOfKind expert(*stage.plan.model, WeightKind::expert);
  const auto layout_of = [&](const Model& units, WeightKind kind) {
    return make_layout(options_.zero_stage, units, uncut, options_.mesh,
                       options_.sync.gradient_dtype, options_.bucket_bytes,
                       options_.first_bucket_bytes, options_.minimum_group_numel, kind,
                       matrix_buckets_of(options_.sync, options_.zero_stage));
  };
  stage.layout = layout_of(dense, WeightKind::dense);
  stage.experts = std::make_unique<Experts>(
      Experts{dense, expert, layout_of(expert, WeightKind::expert), stage.sync});
  Experts& experts = *stage.experts;
  stage.sync.model = &experts.dense_units;
  experts.sync.kind = WeightKind::expert;
  experts.sync.model = &experts.expert_units;
  experts.sync.layout = &experts.layout;
}

ModelPart ParallelPlan::part(const MeshPlace& place) const {
  const Stage& stage = of(place.pp);
  ModelPart part{.model = stage.plan.model,
                 .whole_index = {},
                 .place = place,
                 .expert_part = options_.mesh.expert_part_of(place)};
  if (stage.own) part.whole_index = stage.own->whole_parameters();
  return part;
}

std::unique_ptr<GradientSync> ParallelPlan::make_sync(Runtime& runtime, Mesh& mesh) const {
  const Stage& stage = of(mesh.pp());
  std::unique_ptr<GradientSync> dense =
      make_gradient_sync(options_.zero_stage, stage.sync, runtime, mesh);
  if (stage.experts == nullptr) return dense;
  return std::make_unique<ExpertSync>(
      *stage.plan.model, std::move(dense),
      make_gradient_sync(options_.zero_stage, stage.experts->sync, runtime, mesh));
}

void ParallelPlan::train_rank(Runtime& runtime, Mesh& mesh, TrainingObserver& observer) const {
  if (!options_.members.empty()) return train_elastic(runtime, mesh, observer);
  const std::unique_ptr<GradientSync> sync = make_sync(runtime, mesh);
  train_rank(runtime, mesh, *sync, observer);
}

void ParallelPlan::train_rank(Runtime& runtime, Mesh& mesh, GradientSync& sync,
                              TrainingObserver& observer, const Model* model) const {
  require_all_ranks(options_);
  StagePlan stage = of(mesh.pp()).plan;
  if (model != nullptr) stage.model = model;
  const RankParallel parallel = make_parallel(mesh);
  train(runtime, mesh, stage, sync, parallel.ends(), options_.training, observer);
}

PipelineSchedule ParallelPlan::schedule_of(std::int64_t num_microbatches) const {
  ParallelOptions own = options_;
  own.training.num_microbatches = num_microbatches;
  return lowered_schedule(own);
}

RankParallel ParallelPlan::make_parallel(Mesh& mesh) const { return {options_.model, mesh}; }

std::unique_ptr<TrainingSession> ParallelPlan::make_session(Runtime& runtime, Mesh& mesh,
                                                            GradientSync& sync,
                                                            const ModelParallel& parallel,
                                                            TrainingObserver& observer) const {
  require_all_ranks(options_);
  return std::make_unique<TrainingSession>(runtime, mesh, of(mesh.pp()).plan, sync, parallel,
                                           options_.training, observer);
}

std::vector<std::int64_t> shard_signature(const ParallelPlan& plan, int stage, int shard,
                                          WeightKind kind) {
  std::vector<std::int64_t> signature;
  if (plan.options().zero_stage == 0) return signature;
  const MeshShape& mesh = plan.options().mesh;
  const Model& model = *plan.stage(stage).model;
  const FlatLayout& layout = plan.layout(stage, kind);
  std::int64_t summed_over_tp = 0;
  std::map<int, std::int64_t> summed_over_copies;
  for (int chunk = 0; chunk < static_cast<int>(layout.chunks().size()); ++chunk) {
    const FlatChunk& flat = layout.chunk(chunk);
    const std::int64_t part = flat.padded / layout.num_shards();
    const std::int64_t begin = shard * part;
    const auto add_piece = [&](int parameter, std::int64_t first, std::int64_t count,
                               std::int64_t) {
      const ParameterSpec& spec = spec_of(model, parameter);
      if (mesh.tp > 1 && spec.sum_over_tp) summed_over_tp += count;
      if (spec.is_copied()) summed_over_copies[spec.split.copies] += count;
      if (!spec.tied) return;
      signature.push_back(count);
      for (int tp = 0; tp < mesh.tp; ++tp) {
        signature.push_back(num_filling(spec, tp, first, count));
      }
    };
    layout.for_each_piece(chunk, begin, begin + part, add_piece);
    if (flat.matrices) add_matrices(signature, model, layout, chunk, {begin, begin + part});
    if (mesh.dp_replicate == 1) continue;
    for (int tp = 0; tp < mesh.tp; ++tp) {
      signature.push_back(flat.padding(tp, begin, begin + part));
    }
  }
  signature.push_back(summed_over_tp);
  for (const int copies : mesh.tp_copies) signature.push_back(summed_over_copies[copies]);
  return signature;
}

std::vector<bool> shards_with_marks(const ParallelPlan& plan, int stage, WeightKind kind) {
  const MeshShape& mesh = plan.options().mesh;
  std::vector<bool> has_marks(static_cast<std::size_t>(mesh.num_shards(kind)));
  if (plan.options().zero_stage == 0) return has_marks;
  const Model& model = *plan.stage(stage).model;
  const FlatLayout& layout = plan.layout(stage, kind);
  for (int chunk = 0; chunk < static_cast<int>(layout.chunks().size()); ++chunk) {
    const FlatChunk& flat = layout.chunk(chunk);
    const std::int64_t part = flat.padded / layout.num_shards();
    const auto mark = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end; at = (at / part + 1) * part) {
        has_marks[static_cast<std::size_t>(at / part)] = true;
      }
    };
    layout.for_each_piece(chunk, 0, flat.padded,
                          [&](int parameter, std::int64_t, std::int64_t count, std::int64_t at) {
                            const ParameterSpec& spec = spec_of(model, parameter);
                            const bool is_summed =
                                (mesh.tp > 1 && spec.sum_over_tp) || spec.is_copied();
                            if (spec.tied || is_summed) mark(at, at + count);
                          });
    // Each has other matrices.
    if (flat.matrices) mark(0, flat.padded);
    if (mesh.dp_replicate == 1) continue;
    if (flat.padding_at.empty()) mark(flat.numel, flat.padded);
    for (const std::vector<ElementRange>& of_tp : flat.padding_at) {
      for (const ElementRange& range : of_tp) mark(range.begin, range.end);
    }
  }
  return has_marks;
}

}  // namespace shardsim
