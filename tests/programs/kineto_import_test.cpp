#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "backends/program/program_tables.hpp"

#include "scenarios/load.hpp"

#include "sim/programs/kineto_reader.hpp"
#include "sim/programs/program_replay.hpp"
#include "tests/app/command_fixture.hpp"
#include "tests/programs/programs_fixture.hpp"
#include "tests/temporary_folder.hpp"

// Traces of PyTorch's profiler as programs. Those of tests/programs/data are in its form, with few
// events; make_kineto.py writes them and says what each stands for.
namespace shardsim::test {
namespace {

// Ranks that send in every way.
constexpr const char* kEightRanks = R"({
  "schema_version": 1, "name": "small",
  "model": {"family": "llama", "num_layers": 2, "hidden_size": 32, "ffn_hidden_size": 64,
            "num_attention_heads": 4, "vocab_size": 64, "seq_len": 16},
  "system": {"preset": "dgx-h100", "nodes": 1, "software": "none"},
  "parallelism": {"tp": 2, "pp": 2, "cp": 2, "sequence_parallel": true},
  "training": {"global_batch_size": 2, "micro_batch_size": 1, "max_grad_norm": 1}
})";

TraceFile kineto_file(int rank) {
  const std::string path = "tests/programs/data/kineto-rank" + std::to_string(rank) + ".json";
  std::ifstream file(path);
  return {0, path, {std::istreambuf_iterator<char>(file), {}}};
}

ProgramSet kineto_programs(const std::vector<TraceFile>& files, int ranks = 0) {
  int num_ranks = 0;
  TraceSet traces = read_kineto(files, num_ranks);
  complete_ranks(traces, ranks == 0 ? num_ranks : ranks);
  drop_idle_groups(traces);
  return link_traces(traces);
}

std::vector<std::string> words_of(const ProgramSet& set, int rank) {
  const int which = set.programs.of_rank[static_cast<std::size_t>(rank)];
  const RankProgram& program = set.programs.programs[static_cast<std::size_t>(which)];
  std::vector<std::string> words;
  for (const ProgramStep& step : program.steps) words.push_back(describe(program, step));
  return words;
}

// The example with `from`, which it has once, as `to`.
TraceFile with(const std::string& from, const std::string& to) {
  TraceFile file = kineto_file(0);
  const std::size_t at = file.bytes.find(from);
  REQUIRE(at != std::string::npos);
  file.bytes.replace(at, from.size(), to);
  return file;
}

ProgramReplay on_h100(const ProgramSet& set) {
  const Experiment machine = compile(load_scenario_text(kEightRanks, "small.json"));
  return replay_programs_on(set, {.cluster = machine_for(set, machine)});
}

}  // namespace

TEST_CASE("a profiler's trace becomes kernels, collectives and gaps of the host") {
  const ProgramSet set = kineto_programs({kineto_file(0), kineto_file(1)});
  CHECK(set.programs.of_rank == std::vector<int>{0, 0});  // Both do the same.
  CHECK(words_of(set, 1) ==
        std::vector<std::string>{
            "join 0 [0, 1]",
            "post work 0 0 [0, 1]: all_gather int8 x 2097152",
            "hole Memcpy HtoD (Pinned -> Device) of 4500000 ps after 0 ps of the host",
            "wait for work 0",
            "synchronize",
            "hole idle of 0 ps after 9000000 ps of the host",
            "hole nvjet_tst_256x128_64x4 of 120250000 ps after 0 ps of the host",
            "synchronize",
            "hole idle of 0 ps after 1500000 ps of the host",
            "hole void at::native::vectorized_elementwise_kernel<4> of 20000000 ps after 0 ps of "
            "the host",
            "synchronize",
            "hole idle of 0 ps after 250000 ps of the host",
            "post work 0 0 [0, 1]: reduce_scatter sum int8 x 2097152",
            "hole idle of 0 ps after 1000000 ps of the host",
            "hole nvjet_tst_128x128_64x4 of 100000000 ps after 0 ps of the host",
            "synchronize",
            "hole idle of 0 ps after 7000000 ps of the host",
            "hole void at::native::multi_tensor_apply_kernel of 10000000 ps after 0 ps of the host",
            "synchronize",
            "hole idle of 0 ps after 10000000 ps of the host",
            "post work 1 0 [0, 1]: all_reduce sum int8 x 4",
            "wait for work 1",
            "hole void at::native::multi_tensor_apply_kernel of 5000000 ps after 0 ps of the host",
            "wait for work 0"});
}

TEST_CASE("a profiler's trace takes its kernels, its gaps and what communication costs here") {
  const ProgramSet set = kineto_programs({kineto_file(0), kineto_file(1)});
  const ProgramReplay replay = on_h100(set);
  CHECK(replay.split.compute.picoseconds() == 259'750'000);
  CHECK(replay.split.host.picoseconds() == 28'750'000);
  CHECK(replay.step ==
        replay.split.compute + replay.split.host + replay.split.exposed_comm + replay.split.bubble);
  CHECK(replay.split.exposed_comm > Time());
  CHECK(replay.split.exposed_comm < Time::from_picoseconds(60'000'000));
}

TEST_CASE("the share of a profiler's trace that is covered is stated") {
  const ProgramSet set = kineto_programs({kineto_file(0), kineto_file(1)});
  // 259.75 us of computing and 105 us of communication, of 366.75 us, on each rank.
  CHECK(has_note(set,
                 "99.5 % of the recorded 0.0007335 s of kernels: 28.6 % priced by the "
                 "machine, 70.8 % taken over as recorded"));
  CHECK(has_note(set, "2 communications of 4e-06 s do not say what they move"));
  CHECK(has_note(set, "gaps of 5.75e-05 s"));
}

TEST_CASE("one profiler's trace stands for all ranks of its world") {
  CHECK(words_of(kineto_programs({kineto_file(0)}), 1) ==
        words_of(kineto_programs({kineto_file(0), kineto_file(1)}), 1));
  const ProgramSet eight = kineto_programs({kineto_file(0)}, 8);
  CHECK(eight.programs.of_rank.size() == 8);
  CHECK(on_h100(eight).split.compute == on_h100(kineto_programs({kineto_file(0)})).split.compute);
  CHECK(has_note(eight, "7 of 8 ranks have no trace"));
}

TEST_CASE("events of a profiler that say less are not priced, and their share is stated") {
  const auto unpriced = [](const std::string& from, const std::string& to) {
    return kineto_programs({with(from, to)}).notes;
  };
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"_allgather_base\"", "\"all_shuffle\""},
           {"\"Float\"", "\"Complex\""},
           {"\"In msg nelems\": 524288", "\"In msg nelems\": -1"}}) {
    const std::vector<std::string> notes = unpriced(from, to);
    CHECK(std::ranges::any_of(
        notes, [](const std::string& note) { return note.starts_with("2 communications of "); }));
  }
  // Its own list of ranks is cut short, that of the file is not.
  CHECK(words_of(kineto_programs({with("\"Process Group Ranks\": \"[0, 1]\"",
                                       "\"Process Group Ranks\": \"[0, ..., 1]\"")}),
                 0) == words_of(kineto_programs({kineto_file(0)}), 0));
}

TEST_CASE("computing on several streams comes one after another, with a note") {
  const ProgramSet set =
      kineto_programs({with("\"tid\": 7, \"ts\": 5203341117503.125, \"dur\": 100.0",
                            "\"tid\": 9, \"ts\": 5203341117483.125, \"dur\": 100.0")});
  CHECK(has_note(set, "3.75e-05 s of computing ran beside other computing") == false);
  CHECK(has_note(set, "s of computing ran beside other computing"));
}

TEST_CASE("texts that are no profiler's traces are refused") {
  const auto refusal = [](const std::string& text) {
    try {
      [[maybe_unused]] const ProgramSet set = kineto_programs({{0, "a.json", text}});
    } catch (const Error& error) {
      CHECK(error.code() == "E1384");
      return std::string(error.what());
    }
    return std::string("none");
  };
  CHECK(refusal("{}") == "a.json: it has no list \"traceEvents\"");
  CHECK(refusal("{\"traceEvents\": 1}") == "a.json: it has no list \"traceEvents\"");
  CHECK(refusal(R"({"traceEvents": [{"ph": "X", "cat": "kernel", "dur": 1}]})") ==
        "a.json: an event has no time");
  CHECK(refusal(R"({"traceEvents": [{"ph": "X", "cat": "kernel", "ts": 1, "dur": 1e13}]})") ==
        "a.json: an event takes too long");
}

TEST_CASE("what shardsim exports for a profiler's tools is read again") {
  const TemporaryFolder folder;
  write(folder / "small.json", kEightRanks);
  const Printed exported =
      shardsim({"export", "kineto", folder / "small.json", "-o", folder / "small", "-q"});
  REQUIRE(exported.exit_code == 0);
  std::vector<std::string> words = {"replay", "-q"};
  for (int rank = 0; rank < 8; ++rank) {
    words.push_back(folder / ("small." + std::to_string(rank) + ".pt.trace.json"));
  }
  const Printed replayed = shardsim(words);
  INFO(replayed.err);
  // A batch of messages is one kernel, which does not say what it moves.
  CHECK(replayed.exit_code == 0);
  CHECK(contains(replayed.out, "do not say what they move"));
}

}  // namespace shardsim::test
