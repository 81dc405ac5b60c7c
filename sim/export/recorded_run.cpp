#include "sim/export/recorded_run.hpp"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

constexpr std::int64_t kMostRanks = 2048;

void trace_everything(Scenario& scenario) {
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
}

auto order_of(const RecordedOperation& operation) {
  return std::make_tuple(operation.slice->begin, operation.slice->end, operation.track);
}

// Making groups is part of setting up: it has no place in a trace of training.
bool is_setup(std::string_view name) { return name == "split"; }

// Slices are listed as they were waited for, calls as they were posted, which is the order in which
// a stream runs them.
void pair_stream(const TraceTrack& track, std::size_t index, const RecordedStream& stream,
                 std::vector<RecordedOperation>& operations) {
  std::vector<const TraceSlice*> slices;
  for (const TraceSlice& slice : track.slices) {
    if (!is_setup(slice.name)) slices.push_back(&slice);
  }
  std::stable_sort(slices.begin(), slices.end(), [](const auto* a, const auto* b) {
    return std::make_tuple(a->begin, a->end) < std::make_tuple(b->begin, b->end);
  });
  auto call = stream.calls.begin();
  for (const TraceSlice* slice : slices) {
    while (call != stream.calls.end() && is_setup(call->name)) ++call;
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
  for (const TraceSlice& slice : trace.tracks.front().slices) operations.push_back({&slice});
  const std::vector<RecordedStream>& streams = calls.streams(trace.rank);
  if (streams.size() + 1 != trace.tracks.size()) {
    throw Error(ExitCode::internal, "E1373",
                fmt::format("rank {} has {} communicators and {} traced streams", trace.rank,
                            streams.size(), trace.tracks.size() - 1),
                "please report this scenario");
  }
  for (std::size_t i = 0; i < streams.size(); ++i) {
    pair_stream(trace.tracks[i + 1], i + 1, streams[i], operations);
  }
  std::stable_sort(operations.begin(), operations.end(),
                   [](const RecordedOperation& a, const RecordedOperation& b) {
                     return order_of(a) < order_of(b);
                   });
  return operations;
}

}  // namespace

std::unique_ptr<RecordedRun> record_run(Scenario scenario, const RunHooks& hooks) {
  trace_everything(scenario);
  auto run = std::make_unique<RecordedRun>(std::move(scenario));
  RunHooks recording = hooks;
  recording.wrap_world = run->calls.hook();
  run->outcome = run_experiment(run->experiment, recording);
  if (run->outcome.result.diagnosis) {
    throw Error(ExitCode::communication, "E1372",
                "the run does not come to its end: " + run->outcome.result.diagnosis->summary,
                "`shardsim run` tells the whole story");
  }
  for (const RankTrace& trace : run->outcome.traces) {
    run->ranks.push_back(operations_of(trace, run->calls));
  }
  return run;
}

}  // namespace shardsim
