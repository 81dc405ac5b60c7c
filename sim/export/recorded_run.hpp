#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/communicator.hpp"

#include "sim/run/run.hpp"

// A run with all data for traces of other programs: the times of every operation of every rank
// (RankTrace), and the calls (RunCalls), side by side.
namespace shardsim {

/// A send or a receive.
struct RecordedTransfer {
  bool sends = true;
  int peer = 0;  ///< World rank.
  std::int64_t elements = 0;
};

/// One call of one rank.
struct RecordedCall {
  const char* name = "";  ///< As the trace calls it: "all_reduce", "batch".
  DType dtype = DType::fp32;
  ReduceOp op = ReduceOp::sum;
  std::int64_t input_elements = 0;
  std::int64_t output_elements = 0;
  int root = -1;           ///< Position in the group; -1: none.
  bool is_scalar = false;  ///< Norms, losses, counts.
  std::vector<RecordedTransfer>
      transfers;  ///< Those of send, recv and batch; empty for collectives.
};

/// Calls of one rank over one communicator, in the order they were posted.
struct RecordedStream {
  std::string name;
  int group = 0;  ///< In RunCalls::groups.
  std::vector<RecordedCall> calls;
};

struct RecordedGroup {
  std::string name;
  std::vector<int> members;  ///< World ranks; position = rank in the group.
};

/// The calls of a run: members of a group, sender and receiver, number and type of elements. They
/// are filled while it runs, and complete after it. The recorder sits between strategies and
/// network, and changes nothing.
class RunCalls {
 public:
  explicit RunCalls(int num_ranks) : streams_(static_cast<std::size_t>(num_ranks)) {}

  [[nodiscard]] const std::vector<RecordedGroup>& groups() const { return groups_; }
  /// In the order in which the rank made its communicators; the world comes first.
  [[nodiscard]] const std::vector<RecordedStream>& streams(int rank) const {
    return streams_[static_cast<std::size_t>(rank)];
  }

  /// For RunHooks::wrap_world. The record outlives the run.
  [[nodiscard]] std::function<std::unique_ptr<Communicator>(Communicator&)> hook();

  // For the communicators that write it.
  /// The group that ranks with this color form at the `split`-th split of `parent`.
  int join(int parent, int split, int color, const std::string& name, int position, int size,
           int world_rank);
  std::size_t open_stream(int world_rank, const std::string& name, int group);
  void add(int world_rank, std::size_t stream, RecordedCall call);

 private:
  struct GroupKey {
    int parent;
    int split;
    int color;
    auto operator<=>(const GroupKey&) const = default;
  };

  std::map<GroupKey, int> keys_;
  std::vector<RecordedGroup> groups_;
  std::vector<std::vector<RecordedStream>> streams_;  // By rank.
};

/// An operation of one rank.
struct RecordedOperation {
  const TraceSlice* slice = nullptr;
  std::size_t track = 0;               ///< In the rank's trace; 0 is the compute stream.
  const RecordedCall* call = nullptr;  ///< Null for work of the compute stream.
  int group = -1;                      ///< In RunCalls::groups; -1: none.
};

struct RecordedRun {
  explicit RecordedRun(Scenario from)
      : experiment(std::move(from)), calls(experiment.mesh().size()) {}

  Experiment experiment;
  RunCalls calls;
  RunOutcome outcome;
  std::vector<std::vector<RecordedOperation>> ranks;  ///< By rank, each in order of their start.
};

/// Runs the scenario with all ranks, none represented by another. Throws LimitError E1371 for more
/// ranks than there should be files, and Error E1372 with the cause if the run stops.
[[nodiscard]] std::unique_ptr<RecordedRun> record_run(Scenario scenario, const RunHooks& hooks);

}  // namespace shardsim
