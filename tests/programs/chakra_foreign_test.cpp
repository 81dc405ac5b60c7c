#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "backends/program/program_tables.hpp"

#include "sim/export/chakra_node.hpp"

#include "sim/programs/chakra_reader.hpp"
#include "sim/programs/trace_groups.hpp"
#include "tests/app/command_fixture.hpp"
#include "tests/programs/programs_fixture.hpp"

// Chakra traces that others have written, as far as they say what a program needs.
namespace shardsim::test {
namespace {

// A trace as other writers make it, node by node.
class ForeignTrace {
 public:
  ForeignTrace() : bytes_(chakra_framed(ProtoWriter().add_string(1, "0.0.4").bytes())) {}

  using Numbers = std::map<std::string, std::int64_t>;
  ForeignTrace& add(chakra::NodeType type, std::uint64_t duration_us,
                    const std::vector<std::uint64_t>& after, const Numbers& numbers,
                    const std::string& group = "") {
    ProtoWriter node;
    node.add_uint(1, next_id_).add_string(2, "node " + std::to_string(next_id_));
    node.add_uint(3, static_cast<std::uint64_t>(type));
    for (const std::uint64_t id : after) node.add_uint(5, id);  // Not packed.
    node.add_uint(7, duration_us);
    for (const auto& [name, value] : numbers) {
      node.add_message(10, chakra_attribute(name).add_int(9, value));
    }
    if (!group.empty()) node.add_message(10, chakra_text("pg_name", group));
    bytes_ += chakra_framed(node.bytes());
    ++next_id_;
    return *this;
  }
  ForeignTrace& compute(std::uint64_t us, const std::vector<std::uint64_t>& after = {}) {
    return add(chakra::NodeType::compute, us, after, {});
  }
  ForeignTrace& host(std::uint64_t us, const std::vector<std::uint64_t>& after = {}) {
    return add(chakra::NodeType::compute, us, after, {{"is_cpu_op", 1}});
  }
  ForeignTrace& all_reduce(std::int64_t bytes, const std::vector<std::uint64_t>& after = {},
                           const std::string& group = "") {
    return add(chakra::NodeType::collective, 0, after, {{"comm_type", 0}, {"comm_size", bytes}},
               group);
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
  std::uint64_t next_id_ = 0;
};

// The words of rank 0's program, without those that join groups.
std::string steps_of(const ProgramSet& set) {
  const RankProgram& program =
      set.programs.programs[static_cast<std::size_t>(set.programs.of_rank[0])];
  std::string text;
  for (const ProgramStep& step : program.steps) {
    if (step.kind == ProgramStep::Kind::join) continue;
    const std::string words = describe(program, step);
    text += (text.empty() ? "" : "; ") + words.substr(0, words.find(" ps after"));
  }
  return text;
}

std::vector<TraceFile> twice(const ForeignTrace& trace) {
  return {{0, "a.0.et", trace.bytes()}, {1, "a.1.et", trace.bytes()}};
}

std::string refusal_of(const std::vector<TraceFile>& files, const std::string& groups,
                       const std::string& code) {
  try {
    [[maybe_unused]] const ProgramSet set = imported(files, groups);
  } catch (const Error& error) {
    CHECK(error.code() == code);
    CHECK_FALSE(error.fix().empty());
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("ASTRA-sim's example of an all_reduce costs what the machine says") {
  // examples/workload/microbenchmarks/all_reduce/4npus_1MB/all_reduce.0.et of astra-sim/astra-sim
  // (MIT licence), commit 518bd51; the others differ in the id of the node.
  const std::string published(
      "\x07\x0a\x05"
      "0.0.4H\x12\x14"
      "all_reduce_4npus_1MB\x18\x07R\x0e\x0a\x09is_cpu_op\xd8\x01\x00R\x0d\x0a\x09"
      "comm_typeH\x00R\x0f\x0a\x09"
      "comm_sizeH\x80\x80@",
      81);
  REQUIRE(looks_like_chakra(published));
  const ProgramSet set = imported({{0, "0.et", published},
                                   {1, "1.et", published},
                                   {2, "2.et", published},
                                   {3, "3.et", published}},
                                  "");
  CHECK(set.programs.programs.size() == 1);
  CHECK(steps_of(set) == "post work 0 world: all_reduce sum int8 x 1048576; wait for work 0");
  // 1 MiB on four GPUs of a node, as `shardsim collective` prices it.
  const Printed alone = shardsim({"collective", "all_reduce", "-b", "1M", "-e", "1M", "--ranks",
                                  "4", "-c", "0", "--json", "-q"});
  const Time step = step_on(set, exported_plan());
  CHECK(contains(alone.out, std::to_string(step.picoseconds()).substr(0, 5).insert(2, ".")));
}

TEST_CASE("dependencies of a foreign trace become waits, follows and works of the host") {
  const std::string groups = R"({"1": [0, 1], "2": [0, 1]})";
  SECTION("computing waits for communication") {
    const ForeignTrace trace =
        ForeignTrace().compute(5).all_reduce(64, {0}, "1").compute(7, {0}).compute(9, {1});
    CHECK(steps_of(imported(twice(trace), groups)) ==
          "hole node 0 of 5000000; post work 0 1: all_reduce sum int8 x 64; "
          "hole node 2 of 7000000; wait for work 0; hole node 3 of 9000000");
  }
  SECTION("communication follows communication of another group") {
    const ForeignTrace trace =
        ForeignTrace().compute(5).all_reduce(64, {0}, "1").all_reduce(32, {1}, "2").compute(9);
    CHECK(steps_of(imported(twice(trace), groups)) ==
          "hole node 0 of 5000000; post work 0 1: all_reduce sum int8 x 64; "
          "follow work 0; post work 1 2: all_reduce sum int8 x 32; hole node 3 of 9000000; "
          "wait for work 0; wait for work 1");
  }
  SECTION("the host waits for what it depends on") {
    const ForeignTrace trace = ForeignTrace().compute(5).host(3, {0}).compute(9, {1});
    CHECK(steps_of(imported({{0, "a.0.et", trace.bytes()}}, "")) ==
          "hole node 0 of 5000000; synchronize; hole node 1 of 0; hole node 2 of 9000000");
  }
  SECTION("messages that depend on the same are a batch") {
    const auto exchange = [](int peer, int own) {
      return ForeignTrace()
          .compute(5)
          .add(chakra::NodeType::send, 0, {0},
               {{"comm_src", own}, {"comm_dst", peer}, {"comm_size", 8}})
          .add(chakra::NodeType::recv, 0, {0},
               {{"comm_src", peer}, {"comm_dst", own}, {"comm_size", 8}});
    };
    const ProgramSet set = imported(
        {{0, "a.0.et", exchange(1, 0).bytes()}, {1, "a.1.et", exchange(0, 1).bytes()}}, "");
    CHECK(contains(steps_of(set), "(send int8 x 8 to 1, recv int8 x 8 from 1)"));
    CHECK(step_on(set, exported_plan()) > Time::from_picoseconds(5'000'000));
  }
  SECTION("operations that were counted are priced") {
    const ForeignTrace trace = ForeignTrace().add(chakra::NodeType::compute, 5, {},
                                                  {{"num_ops", 1000000}, {"tensor_size", 2000}});
    CHECK(steps_of(imported({{0, "a.0.et", trace.bytes()}}, "")) ==
          "compute node 0 bf16 1000000 flops 2000 bytes");
  }
}

TEST_CASE("a foreign trace says what it does not have") {
  const ForeignTrace trace = ForeignTrace().compute(5).compute(0).all_reduce(0).add(
      chakra::NodeType::metadata, 15, {}, {});
  const ProgramSet set = imported({{0, "a.0.et", trace.bytes()}}, "");
  CHECK(has_note(set, "memory is not in a Chakra trace"));
  CHECK(has_note(set, "25.0 % of the recorded 2e-05 s"));
  CHECK(has_note(set, "2 of 2 durations are whole microseconds"));
  CHECK(has_note(set, "1 nodes of the device have neither a time nor counted operations"));
  CHECK(has_note(set, "1 communications have no size"));
}

TEST_CASE("control dependencies that go in circles say who called whom") {
  const auto node = [](std::uint64_t id, std::uint64_t caller, std::uint64_t after) {
    ProtoWriter made;
    made.add_uint(1, id).add_string(2, "node " + std::to_string(id)).add_uint(3, 4);
    return chakra_framed(made.add_uint(4, caller).add_uint(5, after).add_uint(7, 1).bytes());
  };
  // Node 1 calls node 0 and itself, and comes after it.
  const std::string bytes = ForeignTrace().bytes() + node(0, 1, 7) + node(1, 1, 0);
  const ProgramSet set = imported({{0, "a.0.et", bytes}}, "");
  CHECK(steps_of(set) == "hole node 0 of 1000000; hole node 1 of 1000000");
  CHECK(has_note(set, "control dependencies go in circles"));
}

TEST_CASE("traces that are wrong are refused with their place") {
  const ForeignTrace good = ForeignTrace().compute(5).all_reduce(64, {0}, "1");
  const std::string groups = R"({"1": [0, 1]})";
  CHECK(refusal_of(twice(good), groups, "") == "none");
  CHECK(refusal_of({{0, "a.0.et", good.bytes().substr(0, 20)}}, "", "E1382") ==
        "a.0.et: the file ends within a message");
  CHECK(refusal_of({{0, "a.0.et", ""}}, "", "E1382") == "a.0.et: the file is empty");
  CHECK(refusal_of(twice(ForeignTrace().compute(1, {1}).compute(1, {0})), "", "E1382") ==
        "a.0.et: nodes depend on each other in a circle");
  CHECK(refusal_of(twice(ForeignTrace().add(chakra::NodeType::send, 0, {}, {{"comm_dst", 0}})), "",
                   "E1382") == "a.0.et: node 0 has no peer");
  CHECK(refusal_of(twice(good), "", "E1381") == "a.0.et: group \"1\" is not in the list of groups");
  CHECK(refusal_of(twice(good), R"({"1": [0]})", "E1381") ==
        "a.1.et: rank 1 communicates in group \"1\" without being a member");
  CHECK(refusal_of(twice(good), R"({"1": [0, 2]})", "E1381") ==
        "a.1.et: rank 1 communicates in group \"1\" without being a member");
  CHECK(refusal_of(twice(good), "[]", "E1381") ==
        "the list of groups: the groups are no lists of ranks");
  CHECK(refusal_of({{0, "a.0.et", good.bytes()}, {1, "a.1.et", ForeignTrace().compute(5).bytes()}},
                   groups, "E1381") == "rank 1 makes 0 collectives in group \"1\", rank 0 makes 1");
  std::vector<TraceFile> five;
  for (int rank = 0; rank < 5; ++rank) {
    five.push_back({rank, "a.et", ForeignTrace().all_reduce(8, {}, "1").bytes()});
  }
  CHECK(refusal_of(five, R"({"1": [0, 1, 2, 4, 3]})", "E1381") ==
        "the ranks of group \"1\" do not lie on a regular grid");
}

TEST_CASE("lists of ranks are found on grids, in their order") {
  using List = std::vector<int>;
  for (const List& list :
       {List{3}, List{0, 1, 2, 3}, List{1, 3, 5}, List{0, 1, 8, 9}, List{0, 8, 1, 9},
        List{0, 1, 4, 5, 16, 17, 20, 21}, List{3, 2, 1}, List{9, 8, 1, 0}}) {
    const std::optional<RankSpan> span = span_of(list);
    REQUIRE(span);
    List found;
    for (int i = 0; i < span->size; ++i) found.push_back(span->rank(i));
    CHECK(found == list);
    for (int i = 0; i < span->size; ++i)
      CHECK(span->member_of(list[static_cast<std::size_t>(i)]) == i);
  }
  for (const List& list :
       {List{}, List{0, 1, 3}, List{0, 2, 1, 3, 5, 4}, List{1, 1}, List{0, 1, 0, 1}}) {
    CHECK_FALSE(span_of(list));
  }
}

}  // namespace shardsim::test
