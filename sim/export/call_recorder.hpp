#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/communicator.hpp"

// The calls of ranks, beside their times (RankTrace): the members of a group, sender and receiver,
// number and type of elements. Sits between strategies and network, and changes nothing.
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

/// The calls of a run. They are filled while it runs, and complete after it.
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

}  // namespace shardsim
