#include <map>
#include <set>
#include <sstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/kernel/error.hpp"

#include "sim/export/recorded_run.hpp"

#include "tests/exchange/exchange_fixture.hpp"
#include "tests/protoc.hpp"

// Chakra traces as protoc reads them by the schema's names.
namespace shardsim::test {

namespace {

struct ReadNode {
  std::uint64_t id = 0;
  std::string name;
  std::string type;
  std::uint64_t start = 0;
  std::uint64_t duration = 0;
  std::vector<std::uint64_t> control;
  std::vector<std::uint64_t> data;
  std::map<std::string, std::string> attributes;
};

struct ReadTrace {
  std::string version;
  std::vector<ReadNode> nodes;
};

// The length before a message, and where the message begins.
std::size_t read_length(const std::string& bytes, std::size_t& at) {
  std::size_t length = 0;
  for (unsigned shift = 0;; shift += 7) {
    REQUIRE(at < bytes.size());
    const auto byte = static_cast<unsigned char>(bytes[at++]);
    length |= static_cast<std::size_t>(byte & 0x7FU) << shift;
    if (byte < 0x80U) return length;
  }
}

std::string decode(const std::string& message, const std::string& bytes) {
  return run_protoc(
      "--decode=ChakraProtoMsg." + message + " --proto_path=tests/exchange chakra.proto", bytes);
}

void read_line(const std::string& line, ReadNode& node, std::string& attribute) {
  std::istringstream words(line);
  std::string key;
  std::string value;
  words >> key;
  std::getline(words, value);
  if (!value.empty()) value.erase(0, 1);
  // A number would be a field that the schema does not have.
  REQUIRE(std::isdigit(static_cast<unsigned char>(key.front())) == 0);
  if (line.rfind("    ", 0) == 0 && key == "name:") {
    attribute = value.substr(1, value.size() - 2);
  } else if (line.rfind("    ", 0) == 0) {
    node.attributes[attribute] = value;
  } else if (key == "id:") {
    node.id = std::stoull(value);
  } else if (key == "name:") {
    node.name = value.substr(1, value.size() - 2);
  } else if (key == "type:") {
    node.type = value;
  } else if (key == "ctrl_deps:") {
    node.control.push_back(std::stoull(value));
  } else if (key == "data_deps:") {
    node.data.push_back(std::stoull(value));
  } else if (key == "start_time_micros:") {
    node.start = std::stoull(value);
  } else if (key == "duration_micros:") {
    node.duration = std::stoull(value);
  }
}

std::vector<ReadNode> read_nodes(const std::string& text) {
  std::vector<ReadNode> nodes;
  std::istringstream lines(text);
  std::string line;
  std::string attribute;
  while (std::getline(lines, line)) {
    if (line == "node {") {
      nodes.emplace_back();
    } else if (line[line.find_first_not_of(' ')] != '}' && line != "  attr {") {
      REQUIRE_FALSE(nodes.empty());
      read_line(line, nodes.back(), attribute);
    }
  }
  return nodes;
}

ReadTrace read_chakra(const std::string& bytes) {
  std::size_t at = 0;
  std::size_t length = read_length(bytes, at);
  ReadTrace trace;
  trace.version = decode("GlobalMetadata", bytes.substr(at, length));
  at += length;
  // With the tag of a list's element before each, all that follows is one message.
  std::string list;
  while (at < bytes.size()) {
    const std::size_t begin = at;
    length = read_length(bytes, at);
    at += length;
    REQUIRE(at <= bytes.size());
    list += "\x0a" + bytes.substr(begin, at - begin);
  }
  trace.nodes = read_nodes(decode("NodeList", list));
  return trace;
}

// By rank; made once for all cases.
const std::vector<ReadTrace>& chakra_of_small() {
  static const std::vector<ReadTrace> kTraces = [] {
    const TemporaryFolder folder;
    export_into(folder, "chakra");
    std::vector<ReadTrace> traces;
    for (int rank = 0; rank < 8; ++rank) {
      traces.push_back(read_chakra(content_of(folder / ("small." + std::to_string(rank) + ".et"))));
    }
    return traces;
  }();
  return kTraces;
}

}  // namespace

TEST_CASE("A Chakra file is metadata and nodes of the public schema", "[exchange]") {
  for (const ReadTrace& trace : chakra_of_small()) {
    CHECK(contains(trace.version, "version: \"0.0.4\""));
    std::map<std::string, int> types;
    for (const ReadNode& node : trace.nodes) {
      ++types[node.type];
      const bool is_mark = node.type == "METADATA_NODE";
      CHECK(node.attributes.at("is_cpu_op") == (is_mark ? "true" : "false"));
      CHECK(node.attributes.count("duration_picos") == 1);
      if (is_mark) {
        CHECK(node.attributes.count("mark") == 1);
      } else if (node.type == "COMP_NODE") {
        CHECK(node.attributes.count("num_ops") == 1);
        CHECK(node.attributes.count("tensor_size") == 1);
      } else {
        CHECK(node.attributes.count("comm_size") == 1);
      }
    }
    CHECK(types.size() == 5);  // All that are written, and no other.
  }
}

TEST_CASE("A Chakra file says that operations are not counted", "[exchange]") {
  CHECK(contains(chakra_of_small().front().version, "num_ops and tensor_size are not counted"));
  CHECK(chakra_collective_type("all_reduce") == 0);
  CHECK(chakra_collective_type("all_to_all") == 6);
  CHECK_THROWS_AS(chakra_collective_type("all_shuffle"), Error);
}

TEST_CASE("Dependencies are earlier nodes that have ended", "[exchange]") {
  for (const ReadTrace& trace : chakra_of_small()) {
    std::size_t waits = 0;
    for (std::size_t i = 0; i < trace.nodes.size(); ++i) {
      const ReadNode& node = trace.nodes[i];
      REQUIRE(node.id == i);
      for (const std::vector<std::uint64_t>* list : {&node.control, &node.data}) {
        for (const std::uint64_t id : *list) {
          REQUIRE(id < node.id);
          const ReadNode& before = trace.nodes[id];
          // Both times are rounded.
          CHECK(before.start + before.duration <= node.start + 1);
        }
      }
      if (node.type == "COMP_NODE") waits += node.data.size();
    }
    CHECK(waits > 0);  // Computation waits for communication.
    // One begins; all others come after something.
    CHECK(trace.nodes.front().control.empty());
  }
}

TEST_CASE("Every message that is sent is received, with the same tag and size", "[exchange]") {
  using Message = std::vector<std::string>;
  std::multiset<Message> sent;
  std::multiset<Message> received;
  const std::vector<ReadTrace>& traces = chakra_of_small();
  for (std::size_t rank = 0; rank < traces.size(); ++rank) {
    for (const ReadNode& node : traces[rank].nodes) {
      if (node.type != "COMM_SEND_NODE" && node.type != "COMM_RECV_NODE") continue;
      const auto& a = node.attributes;
      const Message message = {a.at("comm_src"), a.at("comm_dst"), a.at("comm_tag"),
                               a.at("comm_size")};
      const bool sends = node.type == "COMM_SEND_NODE";
      CHECK(a.at(sends ? "comm_src" : "comm_dst") == std::to_string(rank));
      (sends ? sent : received).insert(message);
    }
  }
  CHECK(sent == received);
  CHECK(std::set<Message>(sent.begin(), sent.end()).size() == sent.size());
}

TEST_CASE("Members of a group make the same collectives in the same order", "[exchange]") {
  const TemporaryFolder folder;
  export_into(folder, "chakra");
  const nlohmann::json groups =
      nlohmann::json::parse(content_of(folder / "small.comm_groups.json"));
  const std::vector<ReadTrace>& traces = chakra_of_small();
  const auto collectives = [&](int rank, const std::string& group) {
    std::vector<std::string> list;
    for (const ReadNode& node : traces[static_cast<std::size_t>(rank)].nodes) {
      if (node.type != "COMM_COLL_NODE") continue;
      if (node.attributes.at("pg_name") != "\"" + group + "\"") continue;
      list.push_back(node.attributes.at("comm_type") + " " + node.attributes.at("comm_size"));
    }
    return list;
  };
  std::size_t total = 0;
  for (const auto& [group, members] : groups.items()) {
    const std::vector<std::string> first = collectives(members.front().get<int>(), group);
    total += first.size();
    for (const nlohmann::json& member : members) {
      CHECK(collectives(member.get<int>(), group) == first);
    }
  }
  CHECK(total > 0);
}

}  // namespace shardsim::test
