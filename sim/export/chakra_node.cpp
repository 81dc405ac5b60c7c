#include "sim/export/chakra_node.hpp"

namespace shardsim {

namespace {

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

constexpr std::string_view kSchemaVersion = "0.0.4";

std::string with_length(const std::string& bytes) {
  constexpr std::size_t kMore = 0x80;
  std::string framed;
  std::size_t length = bytes.size();
  for (; length >= kMore; length /= kMore) {
    framed += static_cast<char>(length % kMore + kMore);
  }
  framed += static_cast<char>(length);
  return framed + bytes;
}

ProtoWriter attribute(std::string_view name) {
  ProtoWriter writer;
  writer.add_string(attribute_field::kName, name);
  return writer;
}

// Packed, as proto3 encodes lists of numbers.
void add_ids(ProtoWriter& node, std::uint32_t field, const std::vector<std::uint64_t>& ids) {
  constexpr std::uint64_t kMore = 0x80;
  if (ids.empty()) return;
  std::string packed;
  for (std::uint64_t id : ids) {
    for (; id >= kMore; id /= kMore) packed += static_cast<char>(id % kMore + kMore);
    packed += static_cast<char>(id);
  }
  node.add_string(field, packed);
}

}  // namespace

ChakraNode::ChakraNode(std::uint64_t id, std::string_view name, ChakraNodeType type) {
  node_.add_uint(node_field::kId, id);
  node_.add_string(node_field::kName, name);
  node_.add_uint(node_field::kType, static_cast<std::uint64_t>(type));
}

void ChakraNode::add_time(std::uint64_t start_us, std::uint64_t duration_us) {
  node_.add_uint(node_field::kStart, start_us);
  node_.add_uint(node_field::kDuration, duration_us);
}

void ChakraNode::add_dependencies(const std::vector<std::uint64_t>& control,
                                  const std::vector<std::uint64_t>& data) {
  add_ids(node_, node_field::kControl, control);
  add_ids(node_, node_field::kData, data);
}

void ChakraNode::add_bool(std::string_view name, bool value) {
  ProtoWriter writer = attribute(name);
  writer.add_uint(attribute_field::kBool, value ? 1 : 0);
  node_.add_message(node_field::kAttribute, writer);
}

void ChakraNode::add_int32(std::string_view name, std::int32_t value) {
  ProtoWriter writer = attribute(name);
  writer.add_int(attribute_field::kInt32, value);
  node_.add_message(node_field::kAttribute, writer);
}

void ChakraNode::add_int64(std::string_view name, std::int64_t value) {
  ProtoWriter writer = attribute(name);
  writer.add_int(attribute_field::kInt64, value);
  node_.add_message(node_field::kAttribute, writer);
}

void ChakraNode::add_uint64(std::string_view name, std::uint64_t value) {
  ProtoWriter writer = attribute(name);
  writer.add_uint(attribute_field::kUint64, value);
  node_.add_message(node_field::kAttribute, writer);
}

void ChakraNode::add_string(std::string_view name, std::string_view value) {
  ProtoWriter writer = attribute(name);
  writer.add_string(attribute_field::kString, value);
  node_.add_message(node_field::kAttribute, writer);
}

std::string ChakraNode::framed() const { return with_length(node_.bytes()); }

std::string chakra_metadata(const std::vector<MetadataText>& texts) {
  ProtoWriter metadata;
  metadata.add_string(metadata_field::kVersion, kSchemaVersion);
  for (const MetadataText& each : texts) {
    ProtoWriter writer = attribute(each.name);
    writer.add_string(attribute_field::kString, each.text);
    metadata.add_message(metadata_field::kAttribute, writer);
  }
  return with_length(metadata.bytes());
}

}  // namespace shardsim
