#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/kernel/error.hpp"

#include "sim/programs/chakra_reader.hpp"
#include "sim/programs/chakra_words.hpp"

// The messages of a Chakra file as they stand there, before anybody asks what they mean.
namespace shardsim {

/// E1382.
[[nodiscard]] UsageError bad_chakra(const std::string& place, const std::string& cause);

struct ChakraAttribute {
  std::string text;
  std::optional<std::int64_t> number;
};
using ChakraAttributes = std::map<std::string, ChakraAttribute, std::less<>>;

struct ChakraReadNode {
  std::uint64_t id = 0;
  std::string name;
  std::uint64_t type = 0;
  std::vector<std::uint64_t> control;
  std::vector<std::uint64_t> data;
  std::uint64_t start_us = 0;
  std::uint64_t duration_us = 0;
  std::string inputs;
  ChakraAttributes attributes;

  [[nodiscard]] std::int64_t number(std::string_view name, std::int64_t otherwise) const {
    const auto found = attributes.find(name);
    if (found == attributes.end() || !found->second.number) return otherwise;
    return *found->second.number;
  }
  [[nodiscard]] std::string text(std::string_view name) const {
    const auto found = attributes.find(name);
    return found == attributes.end() ? std::string() : found->second.text;
  }
  [[nodiscard]] bool has(std::string_view name) const { return attributes.contains(name); }
  [[nodiscard]] bool is(chakra::NodeType kind) const {
    return type == static_cast<std::uint64_t>(kind);
  }
};

struct ChakraFile {
  ChakraAttributes metadata;
  std::vector<ChakraReadNode> nodes;
};

/// Throws bad_chakra with the file and the node.
[[nodiscard]] ChakraFile read_chakra_file(const TraceFile& file);

}  // namespace shardsim
