#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/kernel/time.hpp"
#include "sim/kernel/version.hpp"

#include "reports/proto_writer.hpp"
#include "scenarios/machine_spec.hpp"

#include "sim/programs/chakra_words.hpp"

// A Chakra trace is one file per rank: a message GlobalMetadata and a message Node per operation,
// each after its length.
//
// Compute nodes carry their time. For simulators that price operations by a roofline, they also
// carry the operations and bytes that keep the device busy for that time.
namespace shardsim {

/// A message with its length before it.
inline std::string chakra_framed(const std::string& bytes) {
  ProtoWriter length;
  length.add_varint(bytes.size());
  return length.bytes() + bytes;
}

inline ProtoWriter chakra_attribute(std::string_view name) {
  return ProtoWriter().add_string(chakra::attribute_field::kName, name);
}

inline ProtoWriter chakra_text(std::string_view name, std::string_view value) {
  return chakra_attribute(name).add_string(chakra::attribute_field::kString, value);
}

/// Rounded, as the schema has times.
inline std::uint64_t chakra_microseconds(Time time) {
  constexpr std::int64_t kPicoseconds = 1'000'000;
  return static_cast<std::uint64_t>((time.picoseconds() + kPicoseconds / 2) / kPicoseconds);
}

/// Builds one Node.
class ChakraNode {
 public:
  ChakraNode(std::uint64_t id, std::string_view name, chakra::NodeType type) {
    node_.add_uint(chakra::node_field::kId, id);
    node_.add_string(chakra::node_field::kName, name);
    node_.add_uint(chakra::node_field::kType, static_cast<std::uint64_t>(type));
  }
  /// Its exact duration travels in an attribute.
  void add_time(Time begin, Time end) {
    node_.add_uint(chakra::node_field::kStart, chakra_microseconds(begin));
    node_.add_uint(chakra::node_field::kDuration, chakra_microseconds(end - begin));
    add_number(chakra::attribute_name::kDuration, chakra::attribute_field::kInt64,
               (end - begin).picoseconds());
  }
  /// Operations and bytes that keep a device, whose peak for the training is this, busy so long.
  void add_roofline(const DeviceSpec& device, double peak_flops_per_s, Time time) {
    constexpr double kGiga = 1e9;
    add_number("num_ops", chakra::attribute_field::kInt64,
               std::llround(time.seconds() * peak_flops_per_s));
    add_number("tensor_size", chakra::attribute_field::kUint64,
               std::llround(time.seconds() * device.memory_bandwidth_gb_per_s * kGiga));
  }
  /// Ids of earlier nodes.
  void add_dependencies(const std::vector<std::uint64_t>& control,
                        const std::vector<std::uint64_t>& data) {
    add_ids(chakra::node_field::kControl, control);
    add_ids(chakra::node_field::kData, data);
  }
  /// `field`: of the kind of number. All have one form on the wire: 64 bits.
  void add_number(std::string_view name, std::uint32_t field, std::int64_t value) {
    node_.add_message(chakra::node_field::kAttribute, chakra_attribute(name).add_int(field, value));
  }
  void add_string(std::string_view name, std::string_view value) {
    node_.add_message(chakra::node_field::kAttribute, chakra_text(name, value));
  }

  /// With its length before it.
  [[nodiscard]] std::string framed() const { return chakra_framed(node_.bytes()); }

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

/// The message that begins a file, with its length. `more`: attributes and their values.
inline std::string chakra_metadata(
    const std::vector<std::pair<std::string_view, std::string>>& more = {}) {
  using chakra::metadata_field::kAttribute;
  ProtoWriter metadata;
  metadata.add_string(chakra::metadata_field::kVersion, chakra::kVersion);
  metadata.add_message(kAttribute, chakra_text("written_by", "shardsim " + std::string(version())));
  metadata.add_message(kAttribute,
                       chakra_text(chakra::attribute_name::kComputeNodes, chakra::kComputeNote));
  for (const auto& [name, value] : more) metadata.add_message(kAttribute, chakra_text(name, value));
  return chakra_framed(metadata.bytes());
}

}  // namespace shardsim
