#include "tests/property/measured_pipeline.hpp"

#include <algorithm>
#include <array>
#include <compare>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>

#include "strategies/pipeline/stage_model.hpp"
#include "strategies/pipeline/stage_runner.hpp"

#include "tests/backends/fiber_fixture.hpp"
#include "tests/mutants/faulty_communicator.hpp"
#include "tests/strategies/priced_model.hpp"

namespace shardsim::test {

namespace {

// Numbers microbatches; the model needs no more.
class Numbered final : public MicrobatchSource {
 public:
  [[nodiscard]] Batch make_batch(int microbatch, bool /*with_data*/) override {
    return {.first_sample = microbatch};
  }
  void add_loss(const Tensor& /*loss*/) override {}
  void set_scales(Batch& batch) override { batch.loss_scale = 1.0; }
};

// An edge as a rank sees it: what it does there, and whether for chunks that go up the ranks.
struct EdgeUse {
  ActionKind kind = ActionKind::send_forward;
  bool up = false;

  friend auto operator<=>(const EdgeUse&, const EdgeUse&) = default;
};

// When a rank posted its sends and receives, in order.
using Posted = std::map<EdgeUse, std::vector<Time>>;

constexpr std::array kEdgeGroups = {"pp_forward", "pp_backward", "pp_up_forward", "pp_up_backward"};

bool is_edge(const std::string& group) {
  return std::find(kEdgeGroups.begin(), kEdgeGroups.end(), group) != kEdgeGroups.end();
}

EdgeUse use_of(const std::string& group, bool sends) {
  const bool up = group.find("_up_") != group.npos;
  if (group.ends_with("forward")) {
    return {sends ? ActionKind::send_forward : ActionKind::recv_forward, up};
  }
  return {sends ? ActionKind::send_backward : ActionKind::recv_backward, up};
}

EdgeUse use_of(const PipelineSchedule& lowered, const Action& action) {
  return {action.kind, lowered.placement == Placement::v && action.chunk % 2 != 0};
}

FiberOptions options_of(const PipelineSchedule& lowered, std::int64_t message) {
  FiberOptions options{.cluster = test_cluster(lowered.shape.num_ranks), .has_data = false};
  options.cluster.device.peak_flops_per_s.fill(kFlopsPerSecond);
  constexpr double kNothing = 1e300;  // Bytes per second: any message rounds to no time.
  const double bytes_per_s =
      message == 0 ? kNothing
                   : static_cast<double>(kMessageBytes) * 1e12 / static_cast<double>(message);
  options.cluster.intra_node = {.bytes_per_s = bytes_per_s, .latency_s = 0.0};
  options.traced_ranks.resize(index_of(lowered.shape.num_ranks));
  std::iota(options.traced_ranks.begin(), options.traced_ranks.end(), 0);
  return options;
}

std::vector<StageCosts> costs_of_stages(const PipelineSchedule& lowered,
                                        const ScheduleCosts& costs) {
  if (costs.stages.size() > 1) return costs.stages;
  return {index_of(lowered.num_stages()), costs.stages.front()};
}

// One run, and afterwards what there is to read of it.
class Run {
 public:
  Run(const PipelineSchedule& lowered, const ScheduleCosts& costs)
      : lowered_(lowered),
        model_(costs_of_stages(lowered, costs)),
        world_(options_of(lowered, costs.message)),
        posted_(index_of(lowered.shape.num_ranks)) {
    for (int rank = 0; rank < lowered.shape.num_ranks; ++rank) {
      std::vector<ModuleRange> chunks;
      for (int chunk = 0; chunk < lowered.shape.num_chunks; ++chunk) {
        chunks.push_back({lowered.stage_of(rank, chunk), 1});
      }
      stages_.push_back(std::make_unique<StageModel>(model_, chunks));
    }
    const auto wrap = plant(log_posts());
    world_.run([&](Runtime& runtime, Communicator& everyone) {
      const std::unique_ptr<Communicator> wrapped = wrap(everyone);
      run_rank(runtime, *wrapped);
    });
  }

  MeasuredPipeline measure() {
    MeasuredPipeline measured;
    Timeline& times = measured.timeline;
    for (int rank = 0; rank < lowered_.shape.num_ranks; ++rank) {
      measured.computed.emplace_back();
      times.spans.push_back(read_spans(rank, measured.computed.back()));
      measured.peak_messages.push_back(0);
      times.ranks.push_back(read_rank(rank, measured.peak_messages.back()));
      for (const TraceSlice& slice : trace(rank).tracks.front().slices) {
        times.makespan = std::max(times.makespan, slice.end.picoseconds());
      }
    }
    for (int rank = 0; rank < lowered_.shape.num_ranks; ++rank) {
      RankTimeline& of = times.ranks[index_of(rank)];
      of.idle += times.makespan - world_.engine().rank(rank).now().picoseconds();
    }
    for (const auto& [group, counters] : world_.traffic()) {
      if (is_edge(group)) measured.bytes_sent += counters.payload_sent;
    }
    return measured;
  }

 private:
  [[nodiscard]] RankTrace& trace(int rank) { return *world_.engine().rank(rank).trace(); }

  Faults log_posts() {
    const auto log = [this](const Caller& caller, bool sends) {
      posted_[index_of(caller.world_rank)][use_of(caller.to.name(), sends)].push_back(
          world_.engine().rank(caller.world_rank).now());
    };
    Faults faults;
    faults.send = [log](const Caller& caller, const Tensor& buffer, int peer,
                        const CallOptions& options, CallSite site) {
      log(caller, true);
      return caller.to.send(buffer, peer, options, site);
    };
    faults.recv = [log](const Caller& caller, const Tensor& buffer, int peer,
                        const CallOptions& options, CallSite site) {
      log(caller, false);
      return caller.to.recv(buffer, peer, options, site);
    };
    return faults;
  }

  void run_rank(Runtime& runtime, Communicator& everyone) {
    Mesh mesh(everyone,
              {.pp = lowered_.shape.num_ranks, .v_placement = lowered_.placement == Placement::v});
    RankState& rank = world_.engine().rank(everyone.rank());
    if (rank.now() != Time()) throw std::logic_error("making groups should take no time here");
    const StagePlan plan{.model = stages_[index_of(everyone.rank())].get(), .schedule = &lowered_};
    NoParameters sync;
    Numbered source;
    StageRunner runner(plan, runtime, mesh, sync, {});
    runner.run_step(source);
    if (rank.ledger().total_now() != 0) throw std::logic_error("a step leaves memory behind");
  }

  // The slices of this rank's transfers, in the order of the stream.
  std::map<EdgeUse, std::vector<TraceSlice>> transfers(int rank) {
    std::map<EdgeUse, std::vector<TraceSlice>> found;
    for (const TraceTrack& track : trace(rank).tracks) {
      if (!is_edge(track.name)) continue;
      for (const TraceSlice& slice : track.slices) {
        const std::string name = slice.name;
        if (name != "send" && name != "recv") continue;
        found[use_of(track.name, name == "send")].push_back(slice);
      }
    }
    return found;
  }

  std::vector<ActionSpan> read_spans(int rank, std::vector<std::string>& computed) {
    auto moved = transfers(rank);
    std::map<EdgeUse, std::size_t> num_read;
    const std::vector<TraceSlice>& slices = trace(rank).tracks.front().slices;
    std::size_t next = 0;
    std::vector<ActionSpan> spans;
    for (const Action& action : lowered_.actions[index_of(rank)]) {
      computed.emplace_back();
      if (!is_compute(action.kind)) {
        const EdgeUse use = use_of(lowered_, action);
        const std::size_t i = num_read[use]++;
        spans.push_back({posted_[index_of(rank)].at(use).at(i).picoseconds(),
                         moved.at(use).at(i).end.picoseconds()});
        continue;
      }
      const TraceSlice& first = slices.at(next++);
      computed.back() = first.name;
      Time end = first.end;
      if (action.kind == ActionKind::backward) {  // Its two parts, one right after the other.
        const TraceSlice& second = slices.at(next++);
        if (second.begin != first.end) throw std::logic_error("a pause within a backward");
        computed.back() += std::string(" ") + second.name;
        end = second.end;
      }
      spans.push_back({first.begin.picoseconds(), end.picoseconds()});
    }
    if (next != slices.size()) throw std::logic_error("more was computed than there are cells");
    return spans;
  }

  // Idle time without what follows this rank's own end.
  RankTimeline read_rank(int rank, int& peak_messages) {
    const TimeSplit& split = world_.engine().rank(rank).split();
    RankTimeline read;
    read.busy = split.compute.picoseconds();
    read.idle = (split.bubble + split.exposed_comm).picoseconds();
    const std::vector<TraceSlice>& slices = trace(rank).tracks.front().slices;
    read.idle_in_span = (slices.back().end - slices.front().begin).picoseconds() - read.busy;
    for (const MemoryPoint& point : trace(rank).memory) {
      if (point.category != MemoryCategory::activations) continue;
      read.peak_in_flight =
          std::max(read.peak_in_flight, static_cast<int>(point.bytes / kSavedBytes));
      peak_messages =
          std::max(peak_messages, static_cast<int>(point.bytes % kSavedBytes / kMessageBytes));
    }
    return read;
  }

  const PipelineSchedule& lowered_;
  PricedModel model_;
  std::vector<std::unique_ptr<StageModel>> stages_;
  FiberWorld world_;
  std::vector<Posted> posted_;
};

}  // namespace

MeasuredPipeline run_pipeline(const PipelineSchedule& lowered, const ScheduleCosts& costs) {
  return Run(lowered, costs).measure();
}

}  // namespace shardsim::test
