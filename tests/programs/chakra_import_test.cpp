#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"
#include "sim/kernel/metric_rows.hpp"

#include "scenarios/load.hpp"
#include "sim/export/chakra_node.hpp"
#include "sim/export/program_chakra.hpp"
#include "sim/run/run.hpp"

#include "sim/programs/chakra_reader.hpp"
#include "sim/programs/program_replay.hpp"
#include "sim/programs/trace_groups.hpp"
#include "tests/app/command_fixture.hpp"
#include "tests/programs/programs_fixture.hpp"
#include "tests/property/check_property.hpp"
#include "tests/temporary_folder.hpp"

// Chakra traces as programs: those that shardsim writes come back as they were, those of others as
// far as they say.
namespace shardsim::test {
namespace {

std::vector<TraceFile> files_of(const ChakraExport& exported) {
  std::vector<TraceFile> files;
  for (const std::string& bytes : exported.ranks) {
    const auto rank = static_cast<int>(files.size());
    files.push_back({rank, "step." + std::to_string(rank) + ".et", bytes});
  }
  return files;
}

// An attribute that no reader knows takes the place of `name`.
void strip(std::vector<TraceFile>& files, const std::string& name) {
  std::string other = name;
  other.back() = '?';
  for (TraceFile& file : files) {
    for (std::size_t at = file.bytes.find(name); at != std::string::npos;
         at = file.bytes.find(name, at)) {
      file.bytes.replace(at, name.size(), other);
    }
  }
}

ProgramSet imported(const std::vector<TraceFile>& files, const std::string& groups) {
  TraceSet traces = read_chakra(files, groups);
  complete_ranks(traces, 0);
  drop_idle_groups(traces);
  return link_traces(traces);
}

Time step_on(const ProgramSet& set, const Experiment& machine) {
  return replay_programs_on(set, {.cluster = machine_for(set, machine)}).step;
}

// By RunRecord's own difference, through the plan's programs.
Time step_of(const Experiment& experiment) {
  return step_on(record_programs(experiment), experiment);
}

bool has_note(const ProgramSet& set, const std::string& part) {
  return std::ranges::any_of(set.notes, [&](const auto& note) { return contains(note, part); });
}

constexpr const char* kExportedPlan = R"({
  "schema_version": 1, "name": "small plan",
  "model": {"family": "llama", "num_layers": 4, "hidden_size": 256, "ffn_hidden_size": 512,
            "num_attention_heads": 8, "vocab_size": 512, "seq_len": 256},
  "system": {"preset": "dgx-h100", "nodes": 1},
  "parallelism": {"tp": 2, "pp": 2, "zero_stage": 1},
  "training": {"global_batch_size": 8, "micro_batch_size": 1},
  "execution": {"tensors": "meta", "steps": 2}
})";

Experiment exported_plan(const std::vector<std::string>& overrides = {}) {
  return compile(load_scenario_text(kExportedPlan, "plan.json", overrides));
}

// --- Traces of others --------------------------------------------------------------------------

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

TEST_CASE("each shipped verification, as a plan, takes its time after a way through Chakra") {
  int compared = 0;
  for_each_verification([&](const std::string& name, Scenario scenario) {
    INFO(name);
    const Experiment experiment = compile(scenario);
    const ChakraExport exported = chakra_of_programs(std::move(scenario), {});
    const std::vector<TraceFile> files = files_of(exported);
    const ProgramSet set = imported(files, exported.groups);
    if (has_note(set, "some groups were formed within the steps")) {
      CHECK(name == "verify-llama-elastic.json");
      return;
    }
    CHECK(step_on(set, experiment) == step_of(experiment));
    ++compared;
  });
  CHECK(compared > 60);
}

TEST_CASE("durations in picoseconds are enough for the time, whatever the operations are") {
  for_each_verification([&](const std::string& name, Scenario scenario) {
    if (name.find("tp") == std::string::npos && name.find("zero") == std::string::npos) return;
    INFO(name);
    const Experiment experiment = compile(scenario);
    const ChakraExport exported = chakra_of_programs(std::move(scenario), {});
    std::vector<TraceFile> files = files_of(exported);
    strip(files, "operation");
    const ProgramSet set = imported(files, exported.groups);
    CHECK(set.programs.programs.front().tables->num_operations() == 0);
    CHECK(step_on(set, experiment) == step_of(experiment));
  });
}

TEST_CASE("without picoseconds the difference is stated, and is no larger") {
  const Experiment experiment = exported_plan();
  const ChakraExport exported = chakra_of_programs(experiment.scenario(), {});
  std::vector<TraceFile> files = files_of(exported);
  strip(files, "operation");
  CHECK_FALSE(has_note(imported(files, exported.groups), "whole microseconds"));
  strip(files, "duration_picos");
  const ProgramSet set = imported(files, exported.groups);
  REQUIRE(has_note(set, "durations are whole microseconds, so each may be off by 0.5 us"));
  const Time exact = step_of(experiment);
  const Time rounded = step_on(set, experiment);
  CHECK(rounded != exact);
  const RankProgram& program = set.programs.programs.front();
  const auto holes = std::ranges::count(program.steps, ProgramStep::Kind::hole, &ProgramStep::kind);
  const Time bound = Time::from_picoseconds(500'000 * holes * 2);  // Of two stages.
  CHECK(max(exact, rounded) - min(exact, rounded) <= bound);
}

TEST_CASE("an imported trace takes on another machine what its plan takes there") {
  const ChakraExport exported = chakra_of_programs(exported_plan().scenario(), {});
  const ProgramSet set = imported(files_of(exported), exported.groups);
  for (const char* machine : {"system.preset=dgx-b200", "system.preset=dgx-a100",
                              "system.host_us_per_kernel=9", "system.host_us_per_call=1000"}) {
    INFO(machine);
    const Experiment other = exported_plan({machine});
    CHECK(step_on(set, other) == step_of(other));
  }
}

TEST_CASE("traces of the first ranks stand for all of their kind") {
  const Experiment whole = exported_plan({"system.nodes=2"});
  const ChakraExport exported = chakra_of_programs(whole.scenario(), {});
  const std::vector<TraceFile> all = files_of(exported);
  REQUIRE(all.size() == 16);
  // Ranks of each stage lie side by side; one of each tensor-parallel pair has a trace.
  TraceSet some = read_chakra({all[0], all[1], all[8], all[9]}, exported.groups);
  complete_ranks(some, 0);
  drop_idle_groups(some);
  const ProgramSet set = link_traces(some);
  CHECK(has_note(set, "12 of 16 ranks have no trace"));
  CHECK(step_on(set, whole) == step_of(whole));
  CHECK_THROWS_AS(complete_ranks(some, 8), UsageError);
  TraceSet twice = read_chakra({all[0], all[0]}, exported.groups);
  CHECK_THROWS_AS(complete_ranks(twice, 0), UsageError);
}

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
          "hole node 0 of 5000000; post work 0 split 0: all_reduce sum int8 x 64; "
          "hole node 2 of 7000000; wait for work 0; hole node 3 of 9000000");
  }
  SECTION("communication follows communication of another group") {
    const ForeignTrace trace =
        ForeignTrace().compute(5).all_reduce(64, {0}, "1").all_reduce(32, {1}, "2").compute(9);
    CHECK(steps_of(imported(twice(trace), groups)) ==
          "hole node 0 of 5000000; post work 0 split 0: all_reduce sum int8 x 64; "
          "follow work 0; post work 1 split 1: all_reduce sum int8 x 32; hole node 3 of 9000000; "
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

TEST_CASE("property: a trace or program file with wrong bytes is refused or replayed") {
  const Experiment machine = exported_plan();
  const ChakraExport exported = chakra_of_programs(machine.scenario(), {});
  const std::vector<TraceFile> files = files_of(exported);
  const std::string program = program_file_of(record_programs(machine));
  const auto broken = [](std::string text) {
    const int times = *rc::gen::inRange(1, 4);
    for (int i = 0; i < times; ++i) {
      const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
      const char byte =
          *rc::gen::oneOf(rc::gen::arbitrary<char>(), rc::gen::element('0', '9', ' ', '-', '"'));
      text[at] = byte;
    }
    return text;
  };
  check_property(60, [&] {
    try {
      const bool is_trace = *rc::gen::arbitrary<bool>();
      std::vector<TraceFile> some = files;
      if (is_trace) some[1].bytes = broken(some[1].bytes);
      const ProgramSet set = is_trace ? imported(some, exported.groups)
                                      : read_program_file(broken(program), "test.jsonl");
      if (set.programs.of_rank.size() == 8) step_on(set, machine);
    } catch (const Error& error) {
      RC_ASSERT(error.exit_code() != ExitCode::internal);
    }
  });
}

TEST_CASE("the command replays traces, and writes them as programs") {
  const TemporaryFolder folder;
  write(folder / "plan.json", kExportedPlan);
  const Printed exported =
      shardsim({"export", "chakra", folder / "plan.json", "-o", folder / "step", "-q"});
  INFO(exported.err);
  REQUIRE(exported.exit_code == 0);
  std::vector<std::string> words = {"replay"};
  for (int rank = 0; rank < 8; ++rank)
    words.push_back(folder / ("step." + std::to_string(rank) + ".et"));
  std::vector<std::string> more = words;
  more.insert(more.end(), {"-q", "-o", folder / "step.program.jsonl"});
  const Printed replayed = shardsim(more);
  INFO(replayed.err);
  REQUIRE(replayed.exit_code == 0);
  const Time step = step_of(exported_plan());
  CHECK(contains(replayed.out, std::to_string(step.picoseconds()) + " ps\n"));
  CHECK(contains(replayed.out, "note: memory is not in a Chakra trace"));
  const Printed again = shardsim({"replay", folder / "step.program.jsonl", "-q"});
  CHECK(contains(again.out, std::to_string(step.picoseconds()) + " ps\n"));
  const Printed two = shardsim({"replay", folder / "step.program.jsonl", folder / "plan.json"});
  CHECK(two.exit_code == 2);
  CHECK(contains(two.err, "E1378"));
}

TEST_CASE("a run with real tensors is exported as it ran, with a note") {
  const TemporaryFolder folder;
  const Printed printed =
      shardsim({"export", "chakra", "scenarios/verify-gpt-tp4.json", "-o", folder / "step", "-q"});
  CHECK(printed.exit_code == 0);
  CHECK(contains(printed.err, "dependencies are those that a run shows"));
}

}  // namespace shardsim::test
