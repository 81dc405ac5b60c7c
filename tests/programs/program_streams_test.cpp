#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"
#include "sim/kernel/random.hpp"

#include "backends/replay/replay_lanes.hpp"

#include "sim/programs/program_replay.hpp"
#include "sim/programs/program_set.hpp"
#include "tests/backends/fiber_fixture.hpp"
#include "tests/programs/programs_fixture.hpp"
#include "tests/units.hpp"

// Programs that use several streams of a device.
namespace shardsim::test {
namespace {

// Holes are named by the device's microseconds: each costs 1 us of the host, but the last one.
constexpr const char* kRows = R"(
{"hole": {"name": "4 us", "device_ps": 4000000, "host_ps": 1000000}}
{"hole": {"name": "1 us", "device_ps": 1000000, "host_ps": 1000000}}
{"hole": {"name": "2 us", "device_ps": 2000000, "host_ps": 1000000}}
{"hole": {"name": "6 us", "device_ps": 6000000, "host_ps": 1000000}}
{"hole": {"name": "host", "device_ps": 10, "host_ps": 3000000}}
{"call": {"group": 0, "kind": "all_gather", "dtype": "int8", "count": 1000000}}
{"call": {"group": 0, "kind": "all_reduce", "dtype": "fp32", "count": 60000, "reduction": "sum"}}
{"mark": {"kind": "step_begins", "step": 0}}
{"mark": {"kind": "step_ends", "step": 0}}
)";

std::string streams_program(int first, int count, const std::string& steps) {
  const std::string rank = std::to_string(first);
  return R"({"program": {"rank": )" + rank + R"(, "ranks": [[)" + rank + ", " +
         std::to_string(count) + "]]}}\n{\"steps\": \"" + steps + "\"}\n";
}

std::string streams_file(int ranks, const std::string& programs) {
  return R"({"shardsim_program": 1, "name": "streams", "ranks": )" + std::to_string(ranks) + "}" +
         kRows + programs;
}

// All ranks have the steps.
ProgramSet streams_set(int ranks, const std::string& steps) {
  return read_program_file(streams_file(ranks, streams_program(0, ranks, steps)), "test.jsonl");
}

// Each call costs 2 us of the host; 1 us and 100 GB/s between two ranks.
Cluster streams_cluster(int ranks, double slowdown = 0.0) {
  Cluster cluster = test_cluster(ranks);
  cluster.device.host_s_per_call = 2e-6;
  cluster.device.slowdown_beside_collectives = slowdown;
  return cluster;
}

ProgramReplay streams_replay(const ProgramSet& set, double slowdown = 0.0) {
  const auto ranks = static_cast<int>(set.programs.of_rank.size());
  return replay_programs_on(set, {.cluster = streams_cluster(ranks, slowdown)});
}

std::string streams_refusal_of(const std::string& steps) {
  try {
    [[maybe_unused]] const ProgramSet set = streams_set(2, steps);
  } catch (const Error& error) {
    CHECK(error.code() == "E1378");
    CHECK_FALSE(error.fix().empty());
    const std::string message = error.what();
    const std::string place = "test.jsonl: program of rank 0";
    return message.starts_with(place) ? message.substr(place.size()) : message;
  }
  return "none";
}

// Random steps that hang together.
std::string drawn_stream_steps(std::uint64_t seed) {
  const RandomStream random(seed, "streams");
  std::uint64_t draws = 0;
  const auto below = [&](int count) { return static_cast<int>(random.uniform(draws++) * count); };
  std::vector<int> open;
  std::vector<int> free = {3, 2, 1, 0};
  std::vector<bool> recorded(4);
  std::string steps = "m0 u1 u2 u0";
  const auto add = [&](const std::string& letter, int number) {
    steps += " " + letter + std::to_string(number);
  };
  const auto wait = [&] {
    const int which = below(static_cast<int>(open.size()));
    add("w", open[static_cast<std::size_t>(which)]);
    free.push_back(open[static_cast<std::size_t>(which)]);
    open.erase(open.begin() + which);
  };
  for (int i = 0; i < 80; ++i) {
    const int event = below(4);
    const int kind = below(12);
    if (kind < 5) add("h", below(5));
    if (kind == 5) steps += below(3) == 0 ? " s" : " m0";
    if (kind == 6 || kind == 7) add("u", below(3));
    if (kind == 8) add("e", event);
    if (kind == 8) recorded[static_cast<std::size_t>(event)] = true;
    if (kind == 9 && recorded[static_cast<std::size_t>(event)]) add("b", event);
    if (kind == 10 && !free.empty()) {
      if (!open.empty() && below(3) == 0) add("f", open.back());
      add("p" + std::to_string(below(2)) + ":", free.back());
      open.push_back(free.back());
      free.pop_back();
    }
    if (kind == 11 && !open.empty()) wait();
  }
  while (!open.empty()) wait();
  return steps + " u0 m1";
}

}  // namespace

// Rank 0, in us:                             host  stream 0           stream 1
//   h0   the host takes 1, the device 4      1     1 .. 5
//   u1                                       1                        1
//   p0   2 of the host                       3                        may begin at 3
//   w0   rank 1 posts it at 1 + 6 = 7                                 7 .. 13
//   e0   13, for what began at 7
//   u0 h1                                    4     5 .. 6
//   b0   6 .. 7 is a bubble, 7 .. 13 exposed       13
//   h2                                       5     13 .. 15
// One hop of the ring takes 1 us + 500,000 bytes / (100 GB/s) = 6 us.
TEST_CASE("PT5: a program of two streams takes the time of a timeline made by hand") {
  const ProgramSet set = read_program_file(
      streams_file(2, streams_program(0, 1, "m0 h0 u1 p0:0 w0 e0 u0 h1 b0 h2 m1") +
                          streams_program(1, 1, "m0 h3 p0:0 w0 m1")),
      "test.jsonl");
  CHECK(set.programs.programs.front().num_streams == 2);
  CHECK(set.programs.programs.front().num_events == 1);
  const ProgramReplay replay = streams_replay(set);
  CHECK(replay.last_rank == 0);
  CHECK(replay.step.picoseconds() == 15'000'000);
  CHECK(replay.split ==
        TimeSplit{.compute = us(4 + 1 + 2), .host = us(1), .exposed_comm = us(6), .bubble = us(1)});
}

// The call is posted at 2 and runs from 2 to 8. h0 runs from 3 to 7 beside it: by half of 4 us
// longer, so to 9, and b0 has nothing to wait for. Without the slowdown, b0 waits from 7 to 8.
TEST_CASE("PT5: computing is slowed beside a collective of another stream") {
  for (const char* const steps :
       {"m0 u1 p0:0 w0 e0 u0 h0 b0 m1", "m0 u1 p0:0 u0 h0 u1 w0 e0 u0 b0 m1"}) {
    INFO(steps);
    const ProgramSet set = streams_set(2, steps);
    const ProgramReplay slowed = streams_replay(set, 0.5);
    CHECK(slowed.step == us(9));
    CHECK(slowed.split == TimeSplit{.compute = us(6), .host = us(3)});
    const ProgramReplay free = streams_replay(set);
    CHECK(free.step == us(8));
    CHECK(free.split == TimeSplit{.compute = us(4), .host = us(3), .exposed_comm = us(1)});
  }
}

TEST_CASE("a stream on which nothing is done changes no time") {
  const std::string one = "m0 h0 p0:0 h1 w0 s h4 h3 p1:0 h2 w0 m1";
  const std::string other = "m0 h0 u1 u0 p0:0 h1 u1 e0 u0 w0 s h4 h3 p1:0 u1 u0 b0 h2 w0 u1 u0 m1";
  for (const double slowdown : {0.0, 0.3}) {
    const ProgramReplay expected = streams_replay(streams_set(4, one), slowdown);
    const ProgramReplay found = streams_replay(streams_set(4, other), slowdown);
    CHECK(found.step == expected.step);
    CHECK(found.split == expected.split);
  }
}

TEST_CASE("ranks in a gang and ranks step by step do the same on several streams") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const std::string steps = drawn_stream_steps(seed);
    INFO(seed << ": " << steps);
    const ProgramSet set = streams_set(4, steps);
    Cluster cluster = streams_cluster(4, seed % 2 == 0 ? 0.0 : 0.3);
    cluster.device.host_waits_for_kernels = seed % 5 == 0;
    cluster.faults = std::make_shared<const MachineFaults>(
        MachineFaults{.slowdown = {1.0, 1.0, seed % 3 == 0 ? 1.7 : 1.0, 1.0}});
    ReplayWorld together({.cluster = cluster}, set.programs);
    together.run();
    ReplayWorld alone({.cluster = cluster, .traced_ranks = {0, 1, 2, 3}}, set.programs);
    alone.run();
    CHECK(together.trace_hash() == alone.trace_hash());
    for (int rank = 0; rank < 4; ++rank) {
      const TimeSplit& split = together.rank(rank).split();
      CHECK(together.rank(rank).now() == alone.rank(rank).now());
      CHECK(split == alone.rank(rank).split());
      CHECK(split.compute + split.host + split.exposed_comm + split.bubble ==
            together.rank(rank).now());
    }
  }
}

TEST_CASE("a trace has a track for each stream of the device") {
  const ProgramSet set = streams_set(2, "h0 u1 h1 h1 u0 h2");
  ReplayWorld world({.cluster = streams_cluster(2), .traced_ranks = {0}}, set.programs);
  world.run();
  const std::vector<TraceTrack>& tracks = world.rank(0).trace()->tracks;
  REQUIRE(tracks.size() == 3);
  CHECK(tracks[0].name == "compute");
  CHECK(tracks[0].slices.size() == 2);
  CHECK(tracks[2].name == "compute on stream 1");
  REQUIRE(tracks[2].slices.size() == 2);
  CHECK(tracks[2].slices[0].begin == us(2));
}

TEST_CASE("steps of streams and events are a part of the hash, the file and the words") {
  const ProgramSet set = streams_set(2, "u1 h0 e0 u0 b0");
  CHECK(difference_of(read_program_file(program_file_of(set), "test.jsonl"), set) == "");
  const RankProgram& program = set.programs.programs.front();
  CHECK(describe(program, program.steps[0]) == "use stream 1");
  CHECK(describe(program, program.steps[2]) == "record event 0");
  CHECK(describe(program, program.steps[4]) == "wait for event 0");
  const auto hash = [](const std::string& steps) {
    const ProgramSet set = streams_set(2, steps);
    ReplayWorld world({.cluster = streams_cluster(2)}, set.programs);
    world.run();
    return world.trace_hash();
  };
  CHECK(hash("u1 u0 h0") != hash("h0"));
  CHECK(hash("u1 u0 e0 h0 b0") != hash("u1 u0 e1 h0 b1"));
  CHECK(hash("e0 h0 b0") != hash("e0 h0"));
}

TEST_CASE("an event that nobody waits for any more leaves its place to others") {
  std::string steps = "u1 u0";
  for (int event = 0; event < 30; ++event) {
    steps += " h1 e" + std::to_string(event) + " u1 b" + std::to_string(event) + " h2 u0";
  }
  const ProgramSet set = streams_set(2, steps + " e30 b29");
  const Cluster cluster = streams_cluster(2);
  ReplayCodes codes(cluster.device, set.programs, nullptr);
  CHECK(codes.code(set.programs.programs.front(), 1.0).num_events == 2);
}

TEST_CASE("streams and events that a replay could not go on with are refused") {
  CHECK(streams_refusal_of("h0 u1") == ": the program ends on stream 1");
  CHECK(streams_refusal_of("u2 u0") == ": no step goes to stream 1");
  CHECK(streams_refusal_of("u4 u0") == ", step 0: stream 4 is a high number");
  CHECK(streams_refusal_of("e4294967295") == ", step 0: event 4294967295 is a high number");
  CHECK(streams_refusal_of("e0 b1") == ", step 1: event 1 is not recorded");
  CHECK(streams_refusal_of("b0 e0") == ", step 0: event 0 is not recorded");
  CHECK(streams_refusal_of("u").ends_with("\"u\" is no step"));
  CHECK(streams_refusal_of("h0 u1 u0") == "none");
}

TEST_CASE("draws of faults refuse programs of several streams, with the reason") {
  const ProgramSet set = streams_set(2, "u1 h0 u0");
  ReplayLanes lanes({.lanes = {LaneFaults{}}});
  ReplayWorld world({.cluster = streams_cluster(2), .lanes = &lanes}, set.programs);
  std::string reason;
  try {
    world.run();
  } catch (const ReplayEnded& ended) {
    reason = ended.reason;
  }
  CHECK(reason == "draws of faults have one stream per device, and programs have several");
}

}  // namespace shardsim::test
