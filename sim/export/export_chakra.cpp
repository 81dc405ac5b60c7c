#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/version.hpp"

#include "sim/hardware/collective_rows.hpp"

#include "reports/proto_writer.hpp"
#include "sim/export/recorded_run.hpp"

// A Chakra trace is one file per rank: a message GlobalMetadata and a message Node per operation,
// each after its length.
//
// Compute nodes carry their time. For simulators that price operations by a roofline, they also
// carry the operations and bytes that keep the device busy for that time. Dependencies are those
// seen in the run: the order of each stream, the computation after which a communication was
// issued, and the operations for whose end another one waited.
namespace shardsim {

namespace {

// Messages of Chakra's schema (mlcommons/chakra, schema/protobuf/et_def.proto), as far as they are
// written. Types of attributes are those that Chakra's own feeder reads.

// Field numbers of the schema.
namespace node_field {
constexpr std::uint32_t kId = 1;
constexpr std::uint32_t kName = 2;
constexpr std::uint32_t kType = 3;
constexpr std::uint32_t kControl = 4;
constexpr std::uint32_t kData = 5;
constexpr std::uint32_t kStart = 6;
constexpr std::uint32_t kDuration = 7;
constexpr std::uint32_t kAttribute = 10;
}  // namespace node_field

namespace attribute_field {
constexpr std::uint32_t kName = 1;
constexpr std::uint32_t kInt32 = 7;
constexpr std::uint32_t kInt64 = 9;
constexpr std::uint32_t kUint64 = 13;
constexpr std::uint32_t kBool = 27;
constexpr std::uint32_t kString = 29;
}  // namespace attribute_field

namespace metadata_field {
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kAttribute = 2;
}  // namespace metadata_field

constexpr std::string_view kChakraVersion = "0.0.4";

std::string with_length(const std::string& bytes) {
  ProtoWriter length;
  length.add_varint(bytes.size());
  return length.bytes() + bytes;
}

ProtoWriter attribute(std::string_view name) {
  return ProtoWriter().add_string(attribute_field::kName, name);
}

ProtoWriter text_attribute(std::string_view name, std::string_view value) {
  return attribute(name).add_string(attribute_field::kString, value);
}

enum class ChakraNodeType : std::uint8_t { compute = 4, send = 5, recv = 6, collective = 7 };

// Builds one Node.
class ChakraNode {
 public:
  ChakraNode(std::uint64_t id, std::string_view name, ChakraNodeType type) {
    node_.add_uint(node_field::kId, id);
    node_.add_string(node_field::kName, name);
    node_.add_uint(node_field::kType, static_cast<std::uint64_t>(type));
  }
  void add_time(std::uint64_t start_us, std::uint64_t duration_us) {
    node_.add_uint(node_field::kStart, start_us);
    node_.add_uint(node_field::kDuration, duration_us);
  }
  // Ids of earlier nodes.
  void add_dependencies(const std::vector<std::uint64_t>& control,
                        const std::vector<std::uint64_t>& data) {
    add_ids(node_field::kControl, control);
    add_ids(node_field::kData, data);
  }
  // `field`: of the kind of number. All have one form on the wire: 64 bits.
  void add_number(std::string_view name, std::uint32_t field, std::int64_t value) {
    node_.add_message(node_field::kAttribute, attribute(name).add_int(field, value));
  }
  void add_string(std::string_view name, std::string_view value) {
    node_.add_message(node_field::kAttribute, text_attribute(name, value));
  }

  // With its length before it.
  [[nodiscard]] std::string framed() const { return with_length(node_.bytes()); }

 private:
  // Packed, as proto3 encodes lists of numbers.
  void add_ids(std::uint32_t field, const std::vector<std::uint64_t>& ids) {
    if (ids.empty()) return;
    ProtoWriter packed;
    for (const std::uint64_t id : ids) packed.add_varint(id);
    node_.add_message(field, packed);
  }

  ProtoWriter node_;
};

struct ChakraCollective {
  std::string_view name;
  std::int64_t type;
};

// CollectiveCommType of the schema.
constexpr std::array kCollectives = {
    ChakraCollective{collective::kAllReduce.name, 0},
    ChakraCollective{collective::kReduce.name, 1},
    ChakraCollective{collective::kAllGather.name, 2},
    ChakraCollective{collective::kGather.name, 3},
    ChakraCollective{collective::kScatter.name, 4},
    ChakraCollective{collective::kBroadcast.name, 5},
    ChakraCollective{collective::kAllToAll.name, 6},
    ChakraCollective{collective::kReduceScatter.name, 7},
    ChakraCollective{collective::kBarrier.name, 9},
};

constexpr std::string_view kNoCollective = "batch";
constexpr const char* kComputeNote =
    "num_ops and tensor_size are not counted: each is what the device does, or moves, at its peak "
    "in the node's time, so that a roofline of the same device finds that time";

// The message that begins a file, with its length.
std::string chakra_metadata() {
  ProtoWriter metadata;
  metadata.add_string(metadata_field::kVersion, kChakraVersion);
  metadata.add_message(metadata_field::kAttribute,
                       text_attribute("written_by", "shardsim " + std::string(version())));
  metadata.add_message(metadata_field::kAttribute, text_attribute("compute_nodes", kComputeNote));
  return with_length(metadata.bytes());
}

std::uint64_t microseconds(Time time) {
  constexpr std::int64_t kPerMicrosecond = 1'000'000;
  return static_cast<std::uint64_t>((time.picoseconds() + kPerMicrosecond / 2) / kPerMicrosecond);
}

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
    if (operation.track == 0 || computed_.empty()) return ids;
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

  ChakraNode begin_node(Operation& operation, ChakraNodeType type, std::string_view name) {
    const TraceSlice& slice = *operation.recorded.slice;
    ChakraNode node(next_id_, name, type);
    node.add_dependencies(operation.control, operation.data);
    node.add_time(microseconds(slice.begin), microseconds(slice.end - slice.begin));
    node.add_number("is_cpu_op", attribute_field::kBool, 0);
    operation.made.push_back(next_id_++);
    return node;
  }

  std::string compute_node(Operation& operation) {
    const TraceSlice& slice = *operation.recorded.slice;
    ChakraNode node = begin_node(operation, ChakraNodeType::compute, slice.name);
    const DeviceSpec& device = run_.experiment.scenario().system.device;
    const double seconds = (slice.end - slice.begin).seconds();
    const double peak = device.peak_tflops.of(run_.experiment.scenario().training.precision) * 1e12;
    node.add_number("num_ops", attribute_field::kInt64, std::llround(seconds * peak));
    node.add_number("tensor_size", attribute_field::kUint64,
                    std::llround(seconds * device.memory_bandwidth_gb_per_s * 1e9));
    return node.framed();
  }

  std::string collective_node(Operation& operation) {
    const RecordedCall& call = *operation.recorded.call;
    const std::string& group = group_of(run_, operation.recorded).name;
    ChakraNode node = begin_node(operation, ChakraNodeType::collective, group + " " + call.name);
    node.add_number("comm_type", attribute_field::kInt64, chakra_collective_type(call.name));
    node.add_number("comm_size", attribute_field::kInt64,
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
        begin_node(operation, transfer.sends ? ChakraNodeType::send : ChakraNodeType::recv,
                   group.name + (transfer.sends ? " send" : " recv"));
    node.add_number("comm_src", attribute_field::kInt32, source);
    node.add_number("comm_dst", attribute_field::kInt32, target);
    node.add_number("comm_tag", attribute_field::kInt32, tag_of(number, source, target));
    node.add_number("comm_size", attribute_field::kInt64,
                    transfer.elements * size_of(operation.recorded.call->dtype));
    node.add_string("pg_name", std::to_string(number));
    return node.framed();
  }

  // The n-th message of a group between two ranks has equal tags on both: groups are numbered alike
  // on all ranks, and each keeps its messages in order.
  std::int32_t tag_of(int group, int source, int target) {
    constexpr std::int32_t kMessages = 1 << 16;
    constexpr std::int32_t kGroups = 1 << 15;
    const std::int32_t count = messages_[{group, source, target}]++;
    return group % kGroups * kMessages + count % kMessages;
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
  for (const ChakraCollective& each : kCollectives) {
    if (each.name == name) return each.type;
  }
  throw Error(ExitCode::internal, "E1375",
              fmt::format("there is no collective \"{}\" in Chakra's schema", name),
              "please report this scenario");
}

std::string to_chakra(const RecordedRun& run, int rank) { return ChakraRank(run, rank).write(); }

std::string chakra_groups(const RecordedRun& run) {
  std::string text = "{";
  const std::vector<RecordedGroup>& groups = run.calls.groups();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    text +=
        fmt::format("{}\n  \"{}\": [{}]", i == 0 ? "" : ",", i, fmt::join(groups[i].members, ", "));
  }
  return text + "\n}\n";
}

}  // namespace shardsim
