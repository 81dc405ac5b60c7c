#include "sim/programs/chakra_messages.hpp"

#include <utility>

#include <fmt/format.h>

#include "scenarios/source_text.hpp"

#include "sim/programs/proto_reader.hpp"

namespace shardsim {

UsageError bad_chakra(const std::string& place, const std::string& cause) {
  return {"E1382", place + ": " + cause,
          "give files of Chakra's schema 0.0.4, as `shardsim export chakra` writes them"};
}

namespace {

void read_attribute(std::string_view bytes, ChakraAttributes& attributes) {
  namespace field = chakra::attribute_field;
  ProtoReader reader(bytes);
  std::string name;
  ChakraAttribute attribute;
  while (const auto each = reader.next()) {
    if (each->number == field::kName && each->is_bytes) {
      name = each->bytes;
    } else if (each->number == field::kString && each->is_bytes) {
      attribute.text = each->bytes;
    } else if (!each->is_bytes) {
      attribute.number = static_cast<std::int64_t>(each->value);
    }
  }
  attributes[std::move(name)] = std::move(attribute);
}

void add_ids(const ProtoReader::Field& field, std::vector<std::uint64_t>& ids) {
  if (!field.is_bytes) return ids.push_back(field.value);
  ProtoReader packed(field.bytes);
  while (!packed.at_end()) {
    if (const auto id = packed.next_varint()) ids.push_back(*id);
  }
}

ChakraReadNode read_node(std::string_view bytes, const std::string& place) {
  namespace field = chakra::node_field;
  ProtoReader reader(bytes);
  ChakraReadNode node;
  while (const auto each = reader.next()) {
    if (each->is_bytes && each->number == field::kName) node.name = each->bytes;
    if (each->is_bytes && each->number == field::kAttribute) {
      read_attribute(each->bytes, node.attributes);
    }
    if (each->is_bytes && each->number == field::kInputs) {
      ProtoReader inputs(each->bytes);
      while (const auto input = inputs.next()) {
        if (input->number == chakra::kInputValues) node.inputs = input->bytes;
      }
    }
    if (each->number == field::kControl) add_ids(*each, node.control);
    if (each->number == field::kData) add_ids(*each, node.data);
    if (each->is_bytes) continue;
    if (each->number == field::kId) node.id = each->value;
    if (each->number == field::kType) node.type = each->value;
    if (each->number == field::kStart) node.start_us = each->value;
    if (each->number == field::kDuration) node.duration_us = each->value;
  }
  if (!reader.is_good()) throw bad_chakra(place, "a node is no message");
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40U;  // Twelve days.
  if (node.duration_us > kMost) throw bad_chakra(place, "a node takes too long");
  return node;
}

}  // namespace

ChakraFile read_chakra_file(const TraceFile& file) {
  const std::string place = printable(file.path, 200);
  ProtoReader reader(file.bytes);
  ChakraFile read;
  bool is_metadata = true;
  while (!reader.at_end()) {
    const auto length = reader.next_varint();
    const auto message = length ? reader.take(*length) : std::nullopt;
    if (!message) throw bad_chakra(place, "the file ends within a message");
    if (!std::exchange(is_metadata, false)) {
      read.nodes.push_back(
          read_node(*message, fmt::format("{}: node {}", place, read.nodes.size())));
      continue;
    }
    ProtoReader metadata(*message);
    while (const auto field = metadata.next()) {
      if (field->number != chakra::metadata_field::kAttribute || !field->is_bytes) continue;
      read_attribute(field->bytes, read.metadata);
    }
    if (!metadata.is_good()) throw bad_chakra(place, "it does not begin with metadata");
  }
  if (is_metadata) throw bad_chakra(place, "the file is empty");
  return read;
}

bool looks_like_chakra(std::string_view bytes) {
  ProtoReader reader(bytes);
  const auto length = reader.next_varint();
  const auto message = length ? reader.take(*length) : std::nullopt;
  if (!message) return false;
  ProtoReader metadata(*message);
  // PyTorch's converter says no version.
  while (const auto field = metadata.next()) {
    const bool is_known = field->number == chakra::metadata_field::kVersion ||
                          field->number == chakra::metadata_field::kAttribute;
    if (!is_known || !field->is_bytes) return false;
  }
  return metadata.is_good();
}

}  // namespace shardsim
