#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "sim/hardware/collective_rows.hpp"

// Names and numbers of Chakra's schema (mlcommons/chakra, schema/protobuf/et_def.proto, version
// 0.0.4), and of attributes that only shardsim writes. Both directions use them.
namespace shardsim::chakra {

// Field numbers of the schema.
namespace node_field {
inline constexpr std::uint32_t kId = 1;
inline constexpr std::uint32_t kName = 2;
inline constexpr std::uint32_t kType = 3;
inline constexpr std::uint32_t kControl = 4;
inline constexpr std::uint32_t kData = 5;
inline constexpr std::uint32_t kStart = 6;
inline constexpr std::uint32_t kDuration = 7;
inline constexpr std::uint32_t kInputs = 8;
inline constexpr std::uint32_t kAttribute = 10;
}  // namespace node_field

namespace attribute_field {
inline constexpr std::uint32_t kName = 1;
inline constexpr std::uint32_t kInt32 = 7;
inline constexpr std::uint32_t kInt64 = 9;
inline constexpr std::uint32_t kUint32 = 11;
inline constexpr std::uint32_t kUint64 = 13;
inline constexpr std::uint32_t kBool = 27;
inline constexpr std::uint32_t kString = 29;
}  // namespace attribute_field

namespace metadata_field {
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::uint32_t kAttribute = 2;
}  // namespace metadata_field

inline constexpr std::uint32_t kInputValues = 1;  ///< A field of IOInfo.

inline constexpr std::string_view kVersion = "0.0.4";

enum class NodeType : std::uint8_t {
  metadata = 1,
  memory_load = 2,
  memory_store = 3,
  compute = 4,
  send = 5,
  recv = 6,
  collective = 7,
};

struct CollectiveType {
  CollectiveKind kind;
  std::int64_t type;  ///< CollectiveCommType of the schema.
};
/// A type of reduce_scatter that is not written is read.
inline constexpr std::array kCollectiveTypes = {
    CollectiveType{collective::kAllReduce, 0},     CollectiveType{collective::kReduce, 1},
    CollectiveType{collective::kAllGather, 2},     CollectiveType{collective::kGather, 3},
    CollectiveType{collective::kScatter, 4},       CollectiveType{collective::kBroadcast, 5},
    CollectiveType{collective::kAllToAll, 6},      CollectiveType{collective::kReduceScatter, 7},
    CollectiveType{collective::kReduceScatter, 8}, CollectiveType{collective::kBarrier, 9},
};

/// Attributes of a program (docs/guide/import-export.md), which other readers pass over.
namespace attribute_name {
/// The duration in picoseconds; duration_micros is rounded.
inline constexpr std::string_view kDuration = "duration_picos";
/// Host time to issue the operation, in picoseconds.
inline constexpr std::string_view kHostTime = "host_picos";
/// The operation as a row of a program file, without its name.
inline constexpr std::string_view kOperation = "operation";
/// The call as a row of a program file, without its group; batches are told apart by it.
inline constexpr std::string_view kCall = "call";
/// Which of a batch's messages it is; the batch begins with 0.
inline constexpr std::string_view kPartOfBatch = "part_of_batch";
/// The call begins behind the communication that it depends on, not behind the device's work.
inline constexpr std::string_view kFollows = "follows";
/// The host waits for the device after so many of the communications that the node waits for.
inline constexpr std::string_view kHostWaits = "host_waits";
/// The mark as a row of a program file.
inline constexpr std::string_view kMark = "mark";
/// An attribute of the file's metadata: groups that are formed after the first step has begun. A
/// list of groups does not say when, so an import forms them before.
inline constexpr std::string_view kLaterGroups = "groups_formed_later";
/// An attribute of the file's metadata: nodes stand in the order of the program.
inline constexpr std::string_view kOrder = "program_order";
/// Another one: settings of the training, as the header of a program file.
inline constexpr std::string_view kSettings = "settings";
/// Another one, and its value where operations were not counted.
inline constexpr std::string_view kComputeNodes = "compute_nodes";
}  // namespace attribute_name

inline constexpr std::string_view kComputeNote =
    "num_ops and tensor_size are not counted: each is what the device does, or moves, at its peak "
    "in the node's time, so that a roofline of the same device finds that time";

}  // namespace shardsim::chakra
