#include "sim/run/detail/watched_run.hpp"

#include <algorithm>

#include "backends/fiber/fiber_group.hpp"

#include "strategies/mesh.hpp"

namespace shardsim {

namespace {

std::string_view bar_name_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return "forward";
    case ActionKind::backward:
      return "backward";
    case ActionKind::backward_input:
      return "input grad";
    case ActionKind::backward_weight:
      return "weight grad";
    default:
      return "pipeline";
  }
}

}  // namespace

RankRecorder::~RankRecorder() {
  if (rank_ != nullptr) rank_->ledger().set_listener(nullptr);
}

void RankRecorder::attach(RankState& rank) {
  rank_ = &rank;
  rank.ledger().set_listener(this);
}

// --- The rank's work ---------------------------------------------------------------------------

void RankRecorder::step_begins(std::int64_t step) {
  if (step != last_step_) return;
  records_ = true;
  doing_ = {};
  memory_.add({rank_->now(), rank_->ledger().now()});
}

void RankRecorder::action_begins(std::int64_t /*step*/, const Action& action) {
  doing_ = {bar_name_of(action.kind), action.chunk, action.microbatch};
}

void RankRecorder::compute_ends(std::int64_t /*step*/) { doing_ = {}; }

void RankRecorder::step_decided(std::int64_t /*step*/, bool /*skipped*/, double /*next_scale*/) {
  doing_ = {.name = kOptimizer};
}

void RankRecorder::step_ends(std::int64_t step, const GradientSync& /*sync*/,
                             std::optional<double> /*loss*/) {
  if (step != last_step_) return;
  records_ = false;
  memory_.add({rank_->now(), rank_->ledger().now()});
}

// --- Compute stream ----------------------------------------------------------------------------

void RankRecorder::computed(const ComputeOp& op, Time begin, Time end) {
  if (!records_) return;
  OperationSum& sum = operations_[op.name];
  sum.flops += static_cast<double>(op.flops);
  sum.bytes += static_cast<double>(op.bytes);
  sum.time += end - begin;
  ++sum.calls;
  sum.on_host_link = op.kind == ComputeKind::host_transfer;
  if (begin == end) return;
  compute_.add({doing_.name, doing_.chunk, doing_.microbatch, begin, end});
}

// --- Communication -----------------------------------------------------------------------------

void RankRecorder::posted(const FiberOperation& operation) {
  posted_.emplace_back(&operation, doing_);
}

// Few are under way at a time, and ranks mostly wait for the oldest first.
RankRecorder::Doing RankRecorder::take_posted(const FiberOperation& operation) {
  const auto found =
      std::ranges::find_if(posted_, [&](const auto& entry) { return entry.first == &operation; });
  if (found == posted_.end()) return {};
  const Doing doing = found->second;
  posted_.erase(found);
  return doing;
}

void RankRecorder::waits(const FiberOperation& /*operation*/) {
  before_ = rank_->split();
  begin_of_wait_ = rank_->now();
}

void RankRecorder::waited(const FiberOperation& operation, int member) {
  const Doing doing = take_posted(operation);
  if (!records_) return;
  const TimeSplit& after = rank_->split();
  const std::string& group = operation.group()->name();
  CommTime& comm = comm_[group];
  comm.exposed += after.exposed_comm - before_.exposed_comm;
  // Computation beside the operation took longer; the stream is charged for that at the wait.
  const Time slowed = after.compute - before_.compute;
  slowed_ += slowed;
  if (slowed > Time()) {
    compute_.add(
        {doing_.name, doing_.chunk, doing_.microbatch, begin_of_wait_, begin_of_wait_ + slowed});
  }
  const std::string_view name = operation.record_of(member).name;
  // Forming groups belongs to no axis, and is not drawn.
  if (makes_groups(name)) return;
  comm.busy += operation.end() - operation.start();
  if (operation.end() == operation.start()) return;
  streams_[{group, operation.group()->id()}].add(
      {name, doing.chunk, doing.microbatch, operation.start(), operation.end()});
}

// --- Memory ------------------------------------------------------------------------------------

std::vector<TimedUse> RankRecorder::take_memory() {
  std::vector<TimedUse> points = memory_.finish();
  const auto most =
      std::ranges::max_element(points, {}, [](const auto& each) { return total_of(each.bytes); });
  if (most != points.end() && total_of(most->bytes) >= total_of(most_outside_.bytes)) return points;
  const bool comes_first = points.empty() || most_outside_.time <= points.front().time;
  points.insert(comes_first ? points.begin() : points.end(), most_outside_);
  return points;
}

void RankRecorder::memory_changed(MemoryCategory /*category*/, std::int64_t /*bytes_now*/) {
  const TimedUse now{rank_->now(), rank_->ledger().now()};
  if (records_) {
    memory_.add(now);
  } else if (total_of(now.bytes) > total_of(most_outside_.bytes)) {
    most_outside_ = now;
  }
}

// --- The run -----------------------------------------------------------------------------------

WatchedRun::WatchedRun(const ParallelPlan& plan, const RunHooks& hooks, FiberOptions options,
                       const DecisionLog* decisions, const std::set<int>& ranks) {
  options.has_data = false;
  options.record = nullptr;
  options.watch = false;
  options.traced_ranks.clear();
  if (decisions != nullptr) replay_.emplace(*decisions);
  options.replay = replay_ ? &*replay_ : nullptr;
  for (const int rank : ranks) {
    recorders_.push_back(std::make_unique<RankRecorder>(plan.options().training.steps));
    options.observers.emplace(rank, recorders_.back().get());
  }
  world_.emplace(std::move(options));
  auto recorder = recorders_.begin();
  for (const int rank : ranks) (*recorder++)->attach(world_->rank(rank));
  run(plan, hooks);
}

void WatchedRun::run(const ParallelPlan& plan, const RunHooks& hooks) {
  world_->run([&](Runtime& runtime, Communicator& everyone) {
    std::unique_ptr<Communicator> wrapped;
    if (hooks.wrap_world) wrapped = hooks.wrap_world(everyone);
    Mesh mesh(wrapped ? *wrapped : everyone, plan.options().mesh);
    const auto recorder = std::ranges::find(recorders_, everyone.rank(), &RankRecorder::rank);
    TrainingObserver unseen;
    plan.train_rank(runtime, mesh, recorder == recorders_.end() ? unseen : **recorder);
  });
}

RankRecorder& WatchedRun::of(int rank) const {
  return **std::ranges::find(recorders_, rank, &RankRecorder::rank);
}

}  // namespace shardsim
