#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "strategies/named_groups.hpp"
#include "strategies/training/parallel_plan.hpp"

// Data-parallel ranks that leave and join between steps, as TorchElastic has it after a failure or
// a resize, here declared by ParallelOptions::members. In step t the first members[t] ranks take
// part. The global batch stays what it is: member d of n has its microbatches d, d + n, ..., so
// that shares may be uneven. The loss is a mean over the targets of all, so any membership gives
// the model of one device (law L2).
//
// When membership changes, all ranks meet once to form the new group. Absent ranks do nothing else:
// they hold no weights. Joining ranks get weights, optimizer state and progress from the first
// member, which is always there. Broadcasts in the new group bring them, with labels of their own
// ("join parameters", "join optimizer state", "join progress").
namespace shardsim {

namespace {

// State of a rank while it is a member. Groups outlive the objects that use them.
struct Membership {
  std::unique_ptr<Communicator> members;
  std::unique_ptr<Mesh> mesh;
  std::unique_ptr<GradientSync> sync;  // Null: it has no state.
  TrainingProgress progress;
};

void broadcast_state(Communicator& members, GradientSync& sync, StateKind kind, const char* label) {
  std::vector<StatePiece> pieces;
  sync.visit(kind, [&](const StatePiece& piece) { pieces.push_back(piece); });
  for (const StatePiece& piece : pieces) {
    members.broadcast(piece.values, 0, {.label = label}).wait();
  }
}

void hand_on(Runtime& runtime, Membership& own) {
  Communicator& members = *own.mesh->data_group();
  broadcast_state(members, *own.sync, StateKind::parameter, "join parameters");
  broadcast_state(members, *own.sync, StateKind::optimizer_state, "join optimizer state");
  const Tensor updates = runtime.allocate(MemoryCategory::comm, {1}, DType::int64);
  runtime.write_scalar(updates, static_cast<double>(own.progress.updates));
  members.broadcast(updates, 0, {.label = "join progress", .traffic = TrafficClass::scalar}).wait();
  own.progress.updates = static_cast<std::int64_t>(runtime.read_scalar(updates));
}

// All ranks meet; afterwards this rank has the group of the members, or nothing.
void form_group(Mesh& everyone, int members, Membership& own) {
  const int rank = everyone.data_rank();
  const bool is_member = rank < members;
  const RankSpan all = RankSpan::line(everyone.data_size());
  std::unique_ptr<Communicator> group = everyone.data_group()->subgroup(
      is_member ? all.part(0, 1, members) : RankSpan::none(), named_group::kMembers.name);
  if (!is_member) {
    own.sync.reset();
    own.mesh.reset();
    own.members.reset();
    own.progress = {};
    return;
  }
  auto mesh = std::make_unique<Mesh>(*group, MeshShape{.dp_shard = members});
  // The synchronization keeps the mesh where it is.
  if (own.mesh == nullptr) {
    own.mesh = std::move(mesh);
  } else {
    *own.mesh = std::move(*mesh);
  }
  own.members = std::move(group);
}

}  // namespace

int members_at(const ParallelOptions& options, std::int64_t step) {
  const auto last = static_cast<std::int64_t>(options.members.size()) - 1;
  return options.members[to_size(std::min(step, last))];
}

void ParallelPlan::train_elastic(Runtime& runtime, Mesh& everyone,
                                 TrainingObserver& observer) const {
  const ParallelOptions& options = options_;
  const int rank = everyone.data_rank();
  Membership own;
  int before = 0;
  for (std::int64_t step = 0; step < options.training.steps;) {
    const int members = members_at(options, step);
    const bool stays = own.sync != nullptr && rank < members;
    // To change members is part of the step, to set up is not.
    if (stays) observer.step_begins(step);
    form_group(everyone, members, own);
    std::int64_t end = step + 1;
    while (end < options.training.steps && members_at(options, end) == members) ++end;
    if (rank < members) {
      if (!stays) {
        own.sync = make_sync(runtime, *own.mesh);
        // Not before: it has waited for the others since it was last told of a step.
        observer.step_begins(step);
      }
      if (step == 0) observer.training_begins(*own.sync);
      if (before > 0 && members > before) hand_on(runtime, own);
      TrainingPlan training = options.training;
      training.global_batch = num_runs() * training.micro_batch_size;
      training.num_microbatches = num_runs() / members + (rank < num_runs() % members ? 1 : 0);
      const PipelineSchedule schedule = schedule_of(training.num_microbatches);
      StagePlan stage = of(0).plan;
      stage.schedule = &schedule;
      const RankParallel parallel = make_parallel(*own.mesh);
      TrainingSession session(runtime, *own.mesh, stage, *own.sync, parallel.ends(), training,
                              observer);
      session.set_progress(own.progress);
      for (std::int64_t now = step; now < end; ++now) {
        if (now > step) observer.step_begins(now);
        session.compute_gradients(now);
        session.reduce_gradients();
        session.update();
      }
      own.progress = session.progress();
    }
    before = members;
    step = end;
  }
}

}  // namespace shardsim
