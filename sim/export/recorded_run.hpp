#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/communicator.hpp"

#include "sim/run/run.hpp"

// A run with all data for traces of other programs: the times of every operation of every rank
// (RankTrace), and the calls (RunCalls), side by side; and the formats in which it is written.
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
  std::int64_t input_elements = 0;
  std::int64_t output_elements = 0;
  bool is_scalar = false;  ///< Norms, losses, counts.
  /// Those of send, recv and batch; empty for collectives.
  std::vector<RecordedTransfer> transfers = {};
};

/// Calls of one rank over one communicator, in the order they were posted.
struct RecordedStream {
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
  std::size_t open_stream(int world_rank, int group);
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

/// REQUIRES: the operation has a group.
[[nodiscard]] inline const RecordedGroup& group_of(const RecordedRun& run,
                                                   const RecordedOperation& operation) {
  return run.calls.groups()[static_cast<std::size_t>(operation.group)];
}

/// The scenario with all ranks, none represented by another, and traces of all. Throws LimitError
/// (E1371) for more ranks than there should be files.
[[nodiscard]] Scenario traced_everywhere(Scenario scenario);
/// Throws Error (E1372) with the cause if the run stopped.
void require_finished(const RunOutcome& outcome);

/// Runs the scenario with all ranks, none represented by another. Throws LimitError E1371 for more
/// ranks than there should be files, and Error E1372 with the cause if the run stops.
[[nodiscard]] std::unique_ptr<RecordedRun> record_run(Scenario scenario, const RunHooks& hooks);

/// The file of one rank as a Chakra execution trace (MLCommons, schema 0.0.4), which ASTRA-sim and
/// others run.
[[nodiscard]] std::string to_chakra(const RecordedRun& run, int rank);

/// CollectiveCommType of a call by its name in traces. Throws Error E1375 (internal) for a name
/// that the schema does not have.
[[nodiscard]] std::int64_t chakra_collective_type(std::string_view name);

/// The tag of the `count`-th message of a group from one rank to another.
[[nodiscard]] std::int32_t chakra_tag(int group, std::int32_t count);
/// {"0": [0, 1, ...], ...}.
[[nodiscard]] std::string chakra_groups_json(const std::vector<std::vector<int>>& groups);
/// The same, with the members of the groups that nodes name by "pg_name".
[[nodiscard]] std::string chakra_groups(const RecordedRun& run);

/// The file of one rank as PyTorch's profiler (Kineto) writes it, for tools that read those.
[[nodiscard]] std::string to_kineto(const RecordedRun& run, int rank);

struct NcclTestsExport {
  std::string file;                    ///< The scenario with the machine.
  std::vector<std::string> overrides;  ///< As --set.
  bool sweep = false;                  ///< Besides, every power of two that nccl-tests would take.
};

/// One table of nccl-tests for each collective, type and layout of a group (ranks on nodes) in the
/// run. It has the run's sizes, each priced alone on an idle network. Groups that are not spread
/// evenly over nodes are left out and reported on `err`.
[[nodiscard]] std::string nccl_tests_tables(const RecordedRun& run, const NcclTestsExport& options,
                                            std::ostream& err);

}  // namespace shardsim
