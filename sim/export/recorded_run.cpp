#include "sim/export/recorded_run.hpp"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "backends/wrapping_communicator.hpp"

namespace shardsim {

namespace {

class RecordingCommunicator final : public WrappingCommunicator {
 public:
  // `inner`: a communicator that outlives this, or one to own.
  template <class Inner>
  RecordingCommunicator(Inner&& inner, RunCalls& record, int world_rank, int group)
      : WrappingCommunicator(std::forward<Inner>(inner)),
        record_(record),
        world_rank_(world_rank),
        group_(group) {}

  Work post(const Call& call) override {
    if (call.kind != CallKind::collective) {
      note_transfers(call);
    } else if (row_of(call.collective).path == CollectivePath::none) {
      note_silent(call.record.name);
    } else {
      note_collective(call);
    }
    return inner().post(call);
  }
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, const std::string& name,
                                                    CallSite site) override {
    note_silent(collective::kSplit.name);
    std::unique_ptr<Communicator> made = inner().split(color, key, name, site);
    if (made == nullptr) return nullptr;
    const int group = record_.join(group_, num_splits_++, color, made->name(), made->rank(),
                                   made->size(), world_rank_);
    return std::make_unique<RecordingCommunicator>(std::move(made), record_, world_rank_, group);
  }

 private:
  // A call without buffers.
  void note_silent(const char* name) {
    record_.add(world_rank_, stream_, {.name = name, .is_scalar = true});
  }
  void note_collective(const Call& call) {
    const Tensor* input = call.input;
    const Tensor* output = call.output;
    // Only the root has the full buffer; on other ranks the chunk is used for both.
    if (call.record.root != rank()) {
      const RootRole root = row_of(call.collective).root;
      if (root == RootRole::target) output = input;
      if (root == RootRole::source) input = output;
    }
    record_.add(world_rank_, stream_,
                {.name = call.record.name,
                 .dtype = call.record.dtype,
                 .input_elements = input->numel(),
                 .output_elements = output->numel(),
                 .is_scalar = call.record.traffic == TrafficClass::scalar});
  }
  void note_transfers(const Call& call) {
    RecordedCall noted;
    noted.name = call.record.name;
    for (const P2pOp& half : call.halves) {
      noted.dtype = half.buffer.dtype();
      const bool sends = half.kind == P2pOp::Kind::send;
      (sends ? noted.input_elements : noted.output_elements) += half.buffer.numel();
      // Positions in the group; the record turns them into world ranks.
      noted.transfers.push_back({sends, half.peer, half.buffer.numel()});
    }
    record_.add(world_rank_, stream_, std::move(noted));
  }

  RunCalls& record_;
  int world_rank_;
  int group_;
  std::size_t stream_ = record_.open_stream(world_rank_, group_);
  int num_splits_ = 0;
};

constexpr int kNoParent = -1;

constexpr std::int64_t kMostRanks = 2048;

// Slices are listed as they were waited for, calls as they were posted, which is the order in which
// a stream runs them.
void pair_stream(const TraceTrack& track, std::size_t index, const RecordedStream& stream,
                 std::vector<RecordedOperation>& operations) {
  std::vector<const TraceSlice*> slices;
  for (const TraceSlice& slice : track.slices) {
    // That is part of setting up: it has no place in a trace of training.
    if (!makes_groups(slice.name)) slices.push_back(&slice);
  }
  std::ranges::stable_sort(
      slices, {}, [](const TraceSlice* slice) { return std::make_pair(slice->begin, slice->end); });
  auto call = stream.calls.begin();
  for (const TraceSlice* slice : slices) {
    while (call != stream.calls.end() && makes_groups(call->name)) ++call;
    if (call == stream.calls.end() || std::string_view(call->name) != slice->name) {
      throw Error(ExitCode::internal, "E1373",
                  fmt::format("{} of {} was traced where {} was called", slice->name, track.name,
                              call == stream.calls.end() ? "nothing" : call->name),
                  "please report this scenario");
    }
    operations.push_back({slice, index, &*call, stream.group});
    ++call;
  }
}

std::vector<RecordedOperation> operations_of(const RankTrace& trace, const RunCalls& calls) {
  std::vector<RecordedOperation> operations;
  const std::vector<RecordedStream>& streams = calls.streams(trace.rank);
  std::size_t next_stream = 0;
  for (std::size_t i = 0; i < trace.tracks.size(); ++i) {
    const TraceTrack& track = trace.tracks[i];
    if (track.computes) {
      for (const TraceSlice& slice : track.slices) operations.push_back({&slice, i});
    } else if (next_stream++ < streams.size()) {
      pair_stream(track, i, streams[next_stream - 1], operations);
    }
  }
  if (streams.size() != next_stream) {
    throw Error(ExitCode::internal, "E1373",
                fmt::format("rank {} has {} communicators and {} traced streams", trace.rank,
                            streams.size(), next_stream),
                "please report this scenario");
  }
  std::ranges::stable_sort(operations, {}, [](const RecordedOperation& operation) {
    return std::make_tuple(operation.slice->begin, operation.slice->end, operation.track);
  });
  return operations;
}

}  // namespace

std::function<std::unique_ptr<Communicator>(Communicator&)> RunCalls::hook() {
  return [this](Communicator& world) {
    const int rank = world.rank();
    const int group = join(kNoParent, 0, 0, world.name(), rank, world.size(), rank);
    return std::make_unique<RecordingCommunicator>(world, *this, rank, group);
  };
}

int RunCalls::join(int parent, int split, int color, const std::string& name, int position,
                   int size, int world_rank) {
  const auto [found, is_new] =
      keys_.try_emplace({parent, split, color}, static_cast<int>(groups_.size()));
  if (is_new) {
    groups_.push_back({name, std::vector<int>(static_cast<std::size_t>(size), -1)});
  }
  groups_[static_cast<std::size_t>(found->second)].members[static_cast<std::size_t>(position)] =
      world_rank;
  return found->second;
}

std::size_t RunCalls::open_stream(int world_rank, int group) {
  std::vector<RecordedStream>& streams = streams_[static_cast<std::size_t>(world_rank)];
  streams.push_back({group, {}});
  return streams.size() - 1;
}

void RunCalls::add(int world_rank, std::size_t stream, RecordedCall call) {
  streams_[static_cast<std::size_t>(world_rank)][stream].calls.push_back(std::move(call));
}

Scenario traced_everywhere(Scenario scenario) {
  if (scenario.system.ranks > kMostRanks) {
    throw LimitError("E1371",
                     fmt::format("{} ranks; traces are written for at most {}",
                                 scenario.system.ranks, kMostRanks),
                     "use fewer nodes and fewer data-parallel ranks: the others do the same");
  }
  scenario.execution.fold = "off";
  scenario.output.trace = "all";
  scenario.output.trace_ranks.resize(static_cast<std::size_t>(scenario.system.ranks));
  std::iota(scenario.output.trace_ranks.begin(), scenario.output.trace_ranks.end(), 0);
  return scenario;
}

void require_finished(const RunOutcome& outcome) {
  if (!outcome.result.diagnosis) return;
  throw Error(ExitCode::communication, "E1372",
              "the run does not finish: " + outcome.result.diagnosis->summary,
              "`shardsim run` shows the full report");
}

std::unique_ptr<RecordedRun> record_run(Scenario scenario, const RunHooks& hooks) {
  auto run = std::make_unique<RecordedRun>(traced_everywhere(std::move(scenario)));
  RunHooks recording = hooks;
  recording.wrap_world = run->calls.hook();
  run->outcome = run_experiment(run->experiment, recording);
  require_finished(run->outcome);
  for (const RankTrace& trace : run->outcome.traces) {
    run->ranks.push_back(operations_of(trace, run->calls));
  }
  return run;
}

}  // namespace shardsim
