#include "sim/run/rank_programs.hpp"

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "backends/program/recorder.hpp"

#include "strategies/mesh.hpp"
#include "strategies/model/expert_counts.hpp"

namespace shardsim {

namespace {

// Tells a program where its steps begin and end.
class Marker final : public TrainingObserver {
 public:
  explicit Marker(ProgramWriter& writer) : writer_(writer) {}

  void step_begins(std::int64_t step) override { mark(ProgramMark::Kind::step_begins, step); }
  void compute_begins(std::int64_t step) override { mark(ProgramMark::Kind::compute_begins, step); }
  void compute_ends(std::int64_t step) override { mark(ProgramMark::Kind::compute_ends, step); }
  void step_decided(std::int64_t step, bool skipped, double next_scale) override {
    writer_.mark({ProgramMark::Kind::decided, step, skipped, next_scale});
  }
  void step_ends(std::int64_t step, const GradientSync& /*sync*/,
                 std::optional<double> /*loss*/) override {
    mark(ProgramMark::Kind::step_ends, step);
  }

 private:
  void mark(ProgramMark::Kind kind, std::int64_t step) { writer_.mark({kind, step}); }

  ProgramWriter& writer_;
};

// The reason why fibers must run it; "" if there is none.
std::string replay_obstacle_of(const Experiment& experiment, const RunHooks& hooks) {
  const FiberOptions& world = experiment.world();
  if (world.has_data) return "with real tensors (execution.tensors) every rank has numbers";
  if (hooks.replay != nullptr) return "replayed decisions are those of each rank";
  if (hooks.wrap_world) return "something stands between the ranks and the network";
  if (hooks.watch) return "buffers and the order of calls are watched";
  if (hooks.schedule.sends == SendMode::drawn) return "it is drawn which sends are buffered";
  if (hooks.schedule.seed != 0) return "the order of events is drawn";
  return "";
}

// By rank, a key that is equal where ranks are expected to do the same.
class Classes {
 public:
  explicit Classes(const Experiment& experiment)
      : experiment_(experiment),
        mesh_(experiment.plan().options().mesh),
        moe_(experiment.options().model.moe) {
    const ParallelismSpec& parallelism = experiment.scenario().parallelism;
    known_ = !parallelism.is_elastic() && !parallelism.trains_apart() &&
             !parallelism.changes_algorithm();
  }

  using Key = std::array<int, 7>;
  [[nodiscard]] Key of(int rank) const {
    if (!known_) return {rank};
    const MeshPlace place = mesh_.place_of(rank);
    const AlikeRanks& alike = experiment_.alike();
    const auto [member, first] = routing_of(place);
    return {place.pp,
            alike.first_tensor(place),
            place.cp,
            alike.first_shard(place),
            alike.first_expert(place, mesh_),
            member,
            first};
  }

 private:
  // The place among the ranks with a layer's experts, and that group's among the shares of a
  // sequence, as far as tokens that a rank sends and gets depend on them.
  [[nodiscard]] std::pair<int, int> routing_of(const MeshPlace& place) const {
    if (moe_.num_experts == 0) return {};
    const Scenario& scenario = experiment_.scenario();
    const int shares = mesh_.cp * (scenario.parallelism.sequence_parallel ? mesh_.tp : 1);
    const std::int64_t rows = scenario.training.micro_batch_size * scenario.model.seq_len / shares;
    const int member = mesh_.expert_part_of(place);
    const int group = mesh_.expert_index(place) - member;
    // Declared routing is the same for every sample.
    if (moe_.declares_routing()) return {member, group % (mesh_.cp * mesh_.tp)};
    const EvenShares even = even_shares(moe_, rows);
    const auto period = static_cast<int>(even.period);
    // Ranks send and get as many tokens as each other. Which of its experts get one more differs,
    // and no price depends on it: grouped products have the mean number of rows.
    if (even.are_alike(moe_.num_experts, mesh_.ep)) return {mesh_.expert_index(place) % period, 0};
    return {member, group % period};
  }

  const Experiment& experiment_;
  const MeshShape& mesh_;
  const MoeOptions& moe_;
  bool known_ = false;
};

// Records what `most_steps` hold, as long as the hooks let it.
struct Limits {
  std::size_t most_steps;
  const RunHooks& hooks;
};
RankProgram record(Recorder& recorder, const ParallelPlan& plan, int rank, const Limits& limits) {
  return recorder.record(rank, [&](Runtime& runtime, Communicator& world, ProgramWriter& writer) {
    writer.watch_growth([&limits](std::size_t steps) {
      if (steps > limits.most_steps) throw NotRecordable{"a rank does too much to keep all of it"};
      if (limits.hooks.on_progress) limits.hooks.on_progress();
    });
    Mesh mesh(world, plan.options().mesh);
    Marker marker(writer);
    plan.train_rank(runtime, mesh, marker);
  });
}

// The program among `programs` that is equal, or it is added.
int place_of(RankProgram program, std::vector<RankProgram>& programs,
             std::multimap<std::size_t, int>& by_length, Recorder& recorder) {
  const auto [first, last] = by_length.equal_range(program.steps.size());
  for (auto found = first; found != last; ++found) {
    if (same_program(programs[static_cast<std::size_t>(found->second)], program)) {
      recorder.reuse(std::move(program));
      return found->second;
    }
  }
  const auto index = static_cast<int>(programs.size());
  by_length.emplace(program.steps.size(), index);
  programs.push_back(std::move(program));
  return index;
}

}  // namespace

RankRecording record_ranks(const Experiment& experiment, const RunHooks& hooks, const Fold* fold,
                           std::size_t most_steps) {
  std::string obstacle = replay_obstacle_of(experiment, hooks);
  if (!obstacle.empty()) return {std::nullopt, std::move(obstacle)};
  const ParallelPlan& plan = experiment.plan();
  const int ranks = plan.options().mesh.size();
  const Classes classes(experiment);
  struct Members {
    int program = -1;
    int first = -1;
    int last = -1;
  };
  std::map<Classes::Key, Members> members;
  RankPrograms programs{.programs = {},
                        .of_rank = std::vector<int>(static_cast<std::size_t>(ranks)),
                        .neighbours = plan.options().mesh.tp};
  std::multimap<std::size_t, int> by_length;
  std::size_t num_counted = 0;  // Programs whose steps are counted.
  std::size_t num_steps = 0;
  Recorder recorder(ranks);
  try {
    const int count = fold == nullptr ? ranks : static_cast<int>(fold->running.size());
    for (int i = 0; i < count; ++i) {
      const int rank = fold == nullptr ? i : fold->running[static_cast<std::size_t>(i)];
      Members& own = members[classes.of(rank)];
      own.last = rank;
      if (own.first < 0) {
        own.first = rank;
        own.program = place_of(record(recorder, plan, rank, {most_steps, hooks}), programs.programs,
                               by_length, recorder);
        const auto num_programs = static_cast<std::size_t>(own.program) + 1;
        if (num_programs > num_counted) {
          num_counted = num_programs;
          num_steps += programs.programs.back().steps.size();
        }
        if (num_steps > most_steps) {
          return {std::nullopt,
                  "too many ranks do different things to keep what each of them does"};
        }
        if (hooks.on_progress) hooks.on_progress();
      }
      programs.of_rank[static_cast<std::size_t>(rank)] = own.program;
    }
    for (int rank = 0; fold != nullptr && rank < ranks; ++rank) {
      programs.of_rank[static_cast<std::size_t>(rank)] =
          programs.of_rank[static_cast<std::size_t>(fold->representative_of(rank))];
    }
    for (const auto& [_, own] : members) {
      if (own.last == own.first) continue;
      RankProgram other = record(recorder, plan, own.last, {most_steps, hooks});
      std::string difference =
          difference_of(programs.programs[static_cast<std::size_t>(own.program)], other);
      if (!difference.empty()) return {std::nullopt, std::move(difference)};
      recorder.reuse(std::move(other));
    }
  } catch (const NotRecordable& refused) {
    return {std::nullopt, refused.reason};
  }
  return {std::move(programs), ""};
}

}  // namespace shardsim
