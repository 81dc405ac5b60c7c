#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "sim/hardware/collective_rows.hpp"

#include "sim/export/chakra_node.hpp"
#include "sim/export/recorded_run.hpp"

// Chakra traces of a run whose programs are not known: with real tensors, or with decisions that
// only a run can take. Dependencies are those seen in the run: the order of each stream, the
// computation after which a communication was issued, and the operations for whose end another one
// waited.
namespace shardsim {

namespace {

constexpr std::string_view kNoCollective = "batch";

class ChakraRank {
 public:
  ChakraRank(const RecordedRun& run, int rank) : run_(run), rank_(rank) {}

  std::string write() {
    std::string file = chakra_metadata();
    for (const RecordedOperation& operation : run_.ranks[static_cast<std::size_t>(rank_)]) {
      file += nodes_of(operation);
    }
    return file;
  }

 private:
  using Ids = std::vector<std::uint64_t>;

  // The operation that is being written, what its nodes wait for, and their ids.
  struct Operation {
    const RecordedOperation& recorded;
    Ids control;
    Ids data;
    Ids made;
  };

  std::string nodes_of(const RecordedOperation& operation) {
    Operation written{operation, last_of_track_[operation.track], waited_for(operation), {}};
    std::string bytes;
    if (operation.call == nullptr) {
      bytes = compute_node(written);
    } else if (operation.call->transfers.empty() && operation.call->name == kNoCollective) {
      return bytes;  // Nothing was sent.
    } else if (operation.call->transfers.empty()) {
      bytes = collective_node(written);
    } else {
      for (const RecordedTransfer& transfer : operation.call->transfers) {
        bytes += transfer_node(written, transfer);
      }
    }
    remember(operation, written.made);
    return bytes;
  }

  // Operations of other streams that ended exactly when this one began. A communication also waits
  // for the last computation before it, after which it was issued.
  Ids waited_for(const RecordedOperation& operation) const {
    Ids ids;
    const auto ended = ended_at_.find(operation.slice->begin);
    if (ended != ended_at_.end()) {
      for (const auto& [track, nodes] : ended->second) {
        if (track != operation.track) ids.insert(ids.end(), nodes.begin(), nodes.end());
      }
    }
    if (operation.call == nullptr || computed_.empty()) return ids;
    auto before = computed_.upper_bound(operation.slice->begin);
    if (before == computed_.begin()) return ids;
    --before;
    const bool listed = before->first == operation.slice->begin;
    if (!listed) ids.push_back(before->second);
    return ids;
  }

  void remember(const RecordedOperation& operation, const Ids& made) {
    last_of_track_[operation.track] = made;
    // If several end at once on a stream, only the last one is kept.
    ended_at_[operation.slice->end][operation.track] = made;
    if (operation.track == 0) computed_[operation.slice->end] = made.back();
  }

  ChakraNode begin_node(Operation& operation, chakra::NodeType type, std::string_view name) {
    const TraceSlice& slice = *operation.recorded.slice;
    ChakraNode node(next_id_, name, type);
    node.add_dependencies(operation.control, operation.data);
    node.add_time(slice.begin, slice.end);
    node.add_number("is_cpu_op", chakra::attribute_field::kBool, 0);
    operation.made.push_back(next_id_++);
    return node;
  }

  std::string compute_node(Operation& operation) {
    const TraceSlice& slice = *operation.recorded.slice;
    ChakraNode node = begin_node(operation, chakra::NodeType::compute, slice.name);
    const DeviceSpec& device = run_.experiment.scenario().system.device;
    const double peak = device.peak_tflops.of(run_.experiment.scenario().training.dtype()) * 1e12;
    node.add_roofline(device, peak, slice.end - slice.begin);
    return node.framed();
  }

  std::string collective_node(Operation& operation) {
    const RecordedCall& call = *operation.recorded.call;
    const std::string& group = group_of(run_, operation.recorded).name;
    ChakraNode node = begin_node(operation, chakra::NodeType::collective, group + " " + call.name);
    node.add_number("comm_type", chakra::attribute_field::kInt64,
                    chakra_collective_type(call.name));
    node.add_number("comm_size", chakra::attribute_field::kInt64,
                    call.input_elements * size_of(call.dtype));
    node.add_string("pg_name", std::to_string(operation.recorded.group));
    return node.framed();
  }

  std::string transfer_node(Operation& operation, const RecordedTransfer& transfer) {
    const int number = operation.recorded.group;
    const RecordedGroup& group = group_of(run_, operation.recorded);
    const int peer = group.members[static_cast<std::size_t>(transfer.peer)];
    const int source = transfer.sends ? rank_ : peer;
    const int target = transfer.sends ? peer : rank_;
    ChakraNode node =
        begin_node(operation, transfer.sends ? chakra::NodeType::send : chakra::NodeType::recv,
                   group.name + (transfer.sends ? " send" : " recv"));
    node.add_number("comm_src", chakra::attribute_field::kInt32, source);
    node.add_number("comm_dst", chakra::attribute_field::kInt32, target);
    node.add_number("comm_tag", chakra::attribute_field::kInt32, tag_of(number, source, target));
    node.add_number("comm_size", chakra::attribute_field::kInt64,
                    transfer.elements * size_of(operation.recorded.call->dtype));
    node.add_string("pg_name", std::to_string(number));
    return node.framed();
  }

  // The n-th message of a group between two ranks has equal tags on both: groups are numbered alike
  // on all ranks, and each keeps its messages in order.
  std::int32_t tag_of(int group, int source, int target) {
    return chakra_tag(group, messages_[{group, source, target}]++);
  }

  const RecordedRun& run_;
  int rank_;
  std::uint64_t next_id_ = 0;
  std::map<std::size_t, Ids> last_of_track_;
  std::map<Time, std::map<std::size_t, Ids>> ended_at_;
  std::map<Time, std::uint64_t> computed_;  // By their end.
  std::map<std::tuple<int, int, int>, std::int32_t> messages_;
};

}  // namespace

std::int64_t chakra_collective_type(std::string_view name) {
  for (const chakra::CollectiveType& each : chakra::kCollectiveTypes) {
    if (name_of(each.kind) == name) return each.type;
  }
  throw Error(ExitCode::internal, "E1375",
              fmt::format("there is no collective \"{}\" in Chakra's schema", name),
              "please report this scenario");
}

std::int32_t chakra_tag(int group, std::int32_t count) {
  constexpr std::int32_t kMessages = 1 << 16;
  constexpr std::int32_t kGroups = 1 << 15;
  return group % kGroups * kMessages + count % kMessages;
}

std::string chakra_groups_json(const std::vector<std::vector<int>>& groups) {
  std::string text = "{";
  for (std::size_t i = 0; i < groups.size(); ++i) {
    text += fmt::format("{}\n  \"{}\": [{}]", i == 0 ? "" : ",", i, fmt::join(groups[i], ", "));
  }
  return text + "\n}\n";
}

std::string to_chakra(const RecordedRun& run, int rank) { return ChakraRank(run, rank).write(); }

std::string chakra_groups(const RecordedRun& run) {
  std::vector<std::vector<int>> members;
  for (const RecordedGroup& group : run.calls.groups()) members.push_back(group.members);
  return chakra_groups_json(members);
}

}  // namespace shardsim
