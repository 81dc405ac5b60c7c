#include "sim/programs/rank_records.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/kernel/error.hpp"

#include "backends/program/program_tables.hpp"

#include "sim/programs/program_replay.hpp"
#include "tests/app/command_fixture.hpp"
#include "tests/programs/hand_records.hpp"
#include "tests/programs/programs_fixture.hpp"
#include "tests/temporary_folder.hpp"

// Records of single ranks, of which the programs of all ranks are made.
namespace shardsim::test {
namespace {

using Json = nlohmann::ordered_json;

// --- Records of a plan -------------------------------------------------------------------------

// World ranks of a group where `rank` has the program.
std::vector<int> members_at(const RankProgram& program, std::size_t group, int rank) {
  const ProgramGroup& made = program.groups[group];
  const RankSpan span = made.members_for(rank);
  std::vector<int> members;
  for (int i = 0; i < span.size; ++i) members.push_back(span.rank(i));
  if (made.parent <= 0) return members;
  const std::vector<int> parent = members_at(program, static_cast<std::size_t>(made.parent), rank);
  for (int& member : members) member = parent.at(static_cast<std::size_t>(member));
  return members;
}

std::string name_at(const RankProgram& program, std::size_t group, int rank) {
  if (group == 0) return "world";
  return fmt::format("{} {} of {}", program.groups[group].name, group,
                     members_at(program, group, rank).front());
}

std::string group_lines_of(const RankPrograms& programs) {
  std::map<std::string, std::vector<int>> groups;
  for (int rank = 0; rank < static_cast<int>(programs.of_rank.size()); ++rank) {
    const RankProgram& program = programs.program_of(rank);
    for (std::size_t group = 1; group < program.groups.size(); ++group) {
      if (program.groups[group].members.size == 0) continue;
      groups[name_at(program, group, rank)] = members_at(program, group, rank);
    }
  }
  std::string text;
  for (const auto& [name, members] : groups) {
    text += Json({{"group", {{"name", name}, {"members", members}}}}).dump() + "\n";
  }
  return text;
}

// The file that a recorder of one rank would have written.
class Cut {
 public:
  Cut(const ProgramSet& set, int rank) : rank_(rank), program_(set.programs.program_of(rank)) {
    std::istringstream lines(program_file_of(set));
    text_ = "";
    int of = -1;
    const int own = set.programs.of_rank[static_cast<std::size_t>(rank)];
    for (std::string line; std::getline(lines, line);) {
      Json json = Json::parse(line);
      const std::string key = json.items().begin().key();
      if (key == "shardsim_program") {
        json["recorded"] = rank;
        text_ += json.dump() + "\n" + group_lines_of(set.programs);
      } else if (key == "call") {
        calls_.push_back(json);
      } else if (key == "program") {
        if (++of == own) text_ += Json({{"program", {{"rank", rank}}}}).dump() + "\n";
      } else if (key == "steps") {
        if (of == own) add_steps(json["steps"]);
      } else {
        text_ += line + "\n";
      }
    }
  }
  [[nodiscard]] TraceFile file() const { return {0, fmt::format("rank{}.jsonl", rank_), text_}; }

 private:
  void add_steps(const std::string& steps) {
    std::istringstream words(steps);
    std::string out;
    for (std::string word; words >> word;) {
      if (word.front() == 'j') continue;
      if (word.front() == 'p') {
        const std::size_t colon = word.find(':');
        word = fmt::format("p{}{}", call(std::stoul(word.substr(1))), word.substr(colon));
      }
      out += (out.empty() ? "" : " ") + word;
    }
    text_ += Json({{"steps", out}}).dump() + "\n";
  }
  // The row of the record for one of the plan.
  std::size_t call(std::size_t row) {
    const auto [found, is_new] = rows_.try_emplace(row, rows_.size());
    if (is_new) {
      Json json = calls_.at(row);
      json["call"]["group"] = name_at(program_, json["call"]["group"].get<std::size_t>(), rank_);
      text_ += json.dump() + "\n";
    }
    return found->second;
  }

  int rank_;
  const RankProgram& program_;
  std::string text_;
  std::vector<Json> calls_;
  std::map<std::size_t, std::size_t> rows_;
};

// dp 4 x pp 2 x tp 2.
Experiment plan_of_16() {
  return exported_plan({"system.nodes=2", "training.global_batch_size=16"});
}

ProgramSet merged(const ProgramSet& set, const std::vector<int>& ranks) {
  std::vector<TraceFile> files;
  for (const int rank : ranks) files.push_back(Cut(set, rank).file());
  return merge_records(files);
}

// The first rank of each program.
std::vector<int> first_ranks(const ProgramSet& set) {
  std::vector<int> ranks;
  for (const RankProgram& program : set.programs.programs) ranks.push_back(program.rank);
  return ranks;
}

}  // namespace

TEST_CASE("records of some ranks of a plan make the step of all ranks") {
  const Experiment plan = plan_of_16();
  const ProgramSet whole = record_programs(plan);
  const Cluster cluster = machine_for(whole, plan);
  const ProgramReplay expected = replay_programs_on(whole, {.cluster = cluster});
  REQUIRE(whole.programs.programs.size() == 2);
  std::vector<int> all;
  for (int rank = 0; rank < 16; ++rank) all.push_back(rank);
  const std::vector<std::vector<int>> recorded = {first_ranks(whole), {15, 0}, {0, 1, 14, 15}, all};
  for (const std::vector<int>& ranks : recorded) {
    const ProgramSet set = merged(whole, ranks);
    // Stages have groups that begin at their last rank, and so programs of their own.
    std::vector<std::vector<ProgramStep>> different;
    for (const RankProgram& program : set.programs.programs) {
      if (std::ranges::find(different, program.steps) == different.end()) {
        different.push_back(program.steps);
      }
    }
    CHECK(different.size() == 2);
    CHECK(has_note(set, fmt::format("{} of 16 ranks were recorded", ranks.size())));
    const ProgramReplay found = replay_programs_on(set, {.cluster = cluster});
    CHECK(found.has_steps);
    CHECK(found.step == expected.step);
    CHECK(found.split == expected.split);
    CHECK(found.sent_bytes == expected.sent_bytes);
    CHECK(found.peak_memory_bytes == expected.peak_memory_bytes);
    // The merged set is a program file like others.
    CHECK(difference_of(read_program_file(program_file_of(set), "test.jsonl"), set) == "");
  }
}

TEST_CASE("a place in the pipeline that nobody has recorded is an error with the rank to add") {
  const ProgramSet whole = record_programs(plan_of_16());
  std::string others;
  for (std::size_t rank = 0; rank < 16; ++rank) {
    if (whole.programs.of_rank[rank] != 0) others += std::to_string(rank) + " ";
  }
  INFO(others);
  const std::string error = merge_error_of("E1383", [&] { return merged(whole, {0}); });
  CHECK(contains(error, "nobody knows what ranks "));
  CHECK(contains(error, fmt::format("record ranks {}, too", first_ranks(whole).at(1))));
}

TEST_CASE("records of ranks in the same places that differ are an error with the step") {
  const ProgramSet whole = record_programs(plan_of_16());
  const int other = whole.programs.of_rank[1] == 0 ? 1 : 2;
  REQUIRE(whole.programs.of_rank[static_cast<std::size_t>(other)] == 0);
  TraceFile changed = Cut(whole, other).file();
  const std::size_t at = changed.bytes.find(" c", changed.bytes.find("\"steps\""));
  changed.bytes.erase(at, changed.bytes.find(' ', at + 1) - at);
  const std::string error = merge_error_of("E1386", [&] {
    return merge_records({Cut(whole, 0).file(), Cut(whole, 15).file(), changed});
  });
  INFO(error);
  CHECK(contains(error, "in the same places differ: step "));
  CHECK(contains(error, fmt::format(" of ranks 0 and {} is compute ", other)));
}

TEST_CASE("a rank that does something else than most stands for itself, and a note says so") {
  const ProgramSet whole = record_programs(plan_of_16());
  TraceFile changed = Cut(whole, 0).file();
  const std::size_t at = changed.bytes.find(" c", changed.bytes.find("\"steps\""));
  changed.bytes.insert(at, changed.bytes.substr(at, changed.bytes.find(' ', at + 1) - at));
  const ProgramSet set =
      merge_records({changed, Cut(whole, 1).file(), Cut(whole, 2).file(), Cut(whole, 15).file()});
  const auto steps_of = [&](int rank) { return set.programs.program_of(rank).steps; };
  CHECK(steps_of(0).size() == steps_of(1).size() + 1);
  CHECK(steps_of(3) == steps_of(1));
  CHECK(has_note(set, "rank 0 does something else than most in the same places"));
}

TEST_CASE("ranks do what the recorded rank in the most equal places does") {
  const std::string rows = group_line("pair a", {0, 1}) + group_line("pair b", {2, 3}) +
                           group_line("ends", {0, 2}) + group_line("rest", {1, 3});
  const std::string hole = R"({"hole": {"name": "work", "device_ps": 1000}})"
                           "\n";
  // Messages tell ranks 0 and 2 from 1 and 3.
  const std::string send =
      R"({"call": {"group": "pair a", "kind": "send", "dtype": "int8", "count": 8, "root": 1, )"
      R"("messages": [{"to": 1, "dtype": "int8", "count": 8}]}})"
      "\n";
  const std::string receive =
      R"({"call": {"group": "pair b", "kind": "recv", "dtype": "int8", "count": 8, "root": 0, )"
      R"("messages": [{"from": 0, "dtype": "int8", "count": 8}]}})"
      "\n";
  const ProgramSet set = merge_records({record_of_rank(4, 3, rows + receive + hole, "p0:0 w0 h0"),
                                        record_of_rank(4, 0, rows + send + hole, "h0 p0:0 w0")});
  CHECK(set.programs.of_rank == std::vector<int>{0, 1, 0, 1});
  CHECK(merged_replay(set).sent_bytes == 2 * 8);
}

TEST_CASE("groups that do not lie alike have programs of their own, with equal steps") {
  // Each group is told from its end.
  const std::string rows =
      group_line("a", {1, 0}) + group_line("b", {3, 2}) + reduce_line("a") + reduce_line("world");
  const ProgramSet set = merge_records({record_of_rank(4, 0, rows, "p0:0 w0 p1:0 w0")});
  CHECK(set.programs.of_rank == std::vector<int>{0, 0, 1, 1});
  CHECK(set.programs.programs[0].steps == set.programs.programs[1].steps);
  CHECK(merged_replay(set).whole > Time());
  // Two kinds of groups, and all ranks are recorded.
  const std::string pairs = group_line("outer", {0, 3}) + group_line("inner", {1, 2});
  std::vector<TraceFile> files;
  for (const int rank : {0, 1, 2, 3}) {
    const char* const own = rank == 0 || rank == 3 ? "outer" : "inner";
    files.push_back(record_of_rank(4, rank, pairs + reduce_line(own), "p0:0 w0"));
  }
  CHECK(merged_replay(merge_records(files)).whole > Time());
  files.pop_back();  // Rank 0 stands for rank 3.
  CHECK(merged_replay(merge_records(files)).whole > Time());
  files.erase(files.begin());
  CHECK(contains(merge_error_of("E1383", [&] { return merge_records(files); }),
                 "what ranks 0, 3 do"));
}

TEST_CASE("a few records are enough for 1,024 ranks") {
  constexpr int kRanks = 1024;
  constexpr int kTp = 8;
  constexpr int kStage = kRanks / 2;
  std::string groups;
  for (int rank = 0; rank < kRanks; rank += kTp) {
    std::vector<int> members;
    for (int i = 0; i < kTp; ++i) members.push_back(rank + i);
    groups += group_line(fmt::format("tp_{}", rank / kTp), members);
  }
  for (int first = 0; first < kRanks; ++first) {
    if (first % kStage >= kTp) continue;
    std::vector<int> members;
    for (int rank = first; rank < first / kStage * kStage + kStage; rank += kTp) {
      members.push_back(rank);
    }
    groups += group_line(fmt::format("dp_{}", first), members);
  }
  for (int rank = 0; rank < kStage; ++rank) {
    groups += group_line(fmt::format("pp_{}", rank), {rank, rank + kStage});
  }
  const auto message = [](const char* kind, const char* way, int peer) {
    return fmt::format(
               R"({{"call": {{"group": "pp_0", "kind": "{}", "dtype": "int8", "count": 64, )"
               R"("root": {}, "messages": [{{"{}": {}, "dtype": "int8", "count": 64}}]}}}})",
               kind, peer, way, peer) +
           "\n";
  };
  std::string steps;
  for (int i = 0; i < 200; ++i) steps += "p0:0 w0 p1:0 w0 p2:0 w0 ";
  const ProgramSet set = merge_records(
      {record_of_rank(kRanks, 0,
                      groups + reduce_line("tp_0") + message("send", "to", 1) + reduce_line("dp_0"),
                      steps),
       record_of_rank(
           kRanks, kStage,
           groups + reduce_line("tp_64") + message("recv", "from", 0) + reduce_line("dp_512"),
           steps)});
  CHECK(set.programs.programs.size() == 2);
  CHECK(set.programs.of_rank.size() == kRanks);
  CHECK(set.programs.of_rank[kStage - 1] == 0);
  CHECK(set.programs.of_rank[kStage] == 1);
  CHECK(merged_replay(set).whole > Time());
}

TEST_CASE("records that are not well formed are refused with their place") {
  const auto refusal = [](const std::string& rows, const std::string& steps) {
    return merge_error_of("E1378",
                          [&] { return merge_records({record_of_rank(2, 1, rows, steps)}); });
  };
  CHECK(contains(refusal(group_line("a", {0, 2}), ""), "rank1.jsonl:2: \"members\" is 2"));
  CHECK(contains(refusal(group_line("a", {}), ""), "rank1.jsonl:2: a group has no members"));
  CHECK(contains(refusal(group_line("world", {0}), ""), "group \"world\" has not all ranks"));
  CHECK(contains(refusal(group_line("a", {0, 1}) + group_line("a", {1, 0}), ""),
                 "rank1.jsonl:3: a group of this name has other members"));
  CHECK(contains(refusal("", "j1"), "rank1.jsonl:3: a record joins a group"));
  CHECK(contains(refusal(group_line("a", {0, 1}) + reduce_line("a"), "p0:0"),
                 "work 0 is never waited for"));
  CHECK(contains(refusal(group_line("a", {0, 1}) + reduce_line("a"), "w0"),
                 "step 0: work 0 is not there"));
  CHECK(contains(refusal("", "u1"), "the program ends on stream 1"));
  const auto merge_refusal = [](const std::string& code, const std::vector<TraceFile>& files) {
    return merge_error_of(code, [&] { return merge_records(files); });
  };
  const TraceFile good = record_of_rank(2, 1, "", "");
  CHECK(contains(merge_refusal("E1381", {record_of_rank(2, 1, reduce_line("b"), "")}),
                 "group \"b\" is not in the list of groups"));
  TraceFile other = good;
  other.bytes.replace(other.bytes.find("{\"program\": {\"rank\": 1"), 22,
                      "{\"program\": {\"rank\": 0");
  CHECK(
      contains(merge_refusal("E1378", {other}), "a program of rank 0 is in the record of rank 1"));
  CHECK(contains(merge_refusal("E1378", {good, good}), "rank 1 has a record already"));
  CHECK(contains(merge_refusal("E1378", {good, record_of_rank(4, 0, "", "")}),
                 "its header says other ranks or settings"));
  CHECK(contains(merge_refusal("E1378", {good, {0, "all.jsonl", small_program_file()}}),
                 "all.jsonl:1: this is no record of a single rank"));
  CHECK(contains(merge_error_of("E1378", [&] { return read_program_file(good.bytes, "a"); }),
                 "a:1: this is the record of a single rank"));
}

TEST_CASE("the command replays a folder of records") {
  const TemporaryFolder folder;
  const ProgramSet whole = record_programs(plan_of_16());
  write(folder / "plan.json", exported_plan_text());
  std::filesystem::create_directory(folder / "records");
  for (const int rank : first_ranks(whole)) {
    const TraceFile file = Cut(whole, rank).file();
    write(folder / ("records/" + file.path), file.bytes);
  }
  write(folder / "whole.jsonl", program_file_of(whole));
  const auto replay = [&](const std::string& what) {
    const Printed printed = shardsim({"replay", folder / what, "--json", "-q"});
    INFO(printed.err);
    REQUIRE(printed.exit_code == 0);
    return nlohmann::json::parse(printed.out);
  };
  CHECK(replay("records")["step_time_ps"] == replay("whole.jsonl")["step_time_ps"]);
  std::filesystem::create_directory(folder / "none");
  CHECK(contains(shardsim({"replay", folder / "none", "-q"}).err, "has no program files"));
  CHECK(contains(shardsim({"replay", folder / "records/rank0.jsonl", "-q"}).err, "E1383"));
}

}  // namespace shardsim::test
