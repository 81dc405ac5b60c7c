#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reports/proto_writer.hpp"

// Messages of Chakra's schema (mlcommons/chakra, schema/protobuf/et_def.proto), as far as they are
// written. Types of attributes are those that Chakra's own feeder reads.
namespace shardsim {

enum class ChakraNodeType : std::uint8_t { compute = 4, send = 5, recv = 6, collective = 7 };

/// Builds one Node.
class ChakraNode {
 public:
  ChakraNode(std::uint64_t id, std::string_view name, ChakraNodeType type);
  void add_time(std::uint64_t start_us, std::uint64_t duration_us);
  /// Ids of earlier nodes.
  void add_dependencies(const std::vector<std::uint64_t>& control,
                        const std::vector<std::uint64_t>& data);
  void add_bool(std::string_view name, bool value);
  void add_int32(std::string_view name, std::int32_t value);
  void add_int64(std::string_view name, std::int64_t value);
  void add_uint64(std::string_view name, std::uint64_t value);
  void add_string(std::string_view name, std::string_view value);

  /// With its length before it.
  [[nodiscard]] std::string framed() const;

 private:
  ProtoWriter node_;
};

struct MetadataText {
  std::string_view name;
  std::string text;
};

/// The message that begins a file, with its length.
[[nodiscard]] std::string chakra_metadata(const std::vector<MetadataText>& texts);

}  // namespace shardsim
