#include "backends/replay/equal_ranks.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <rapidcheck.h>

#include "sim/kernel/error.hpp"

#include "backends/program/recorder.hpp"
#include "backends/replay/replay_world.hpp"

#include "strategies/model/expert_layer.hpp"

#include "scenarios/load.hpp"
#include "sim/experiment/experiment.hpp"
#include "sim/run/rank_programs.hpp"

#include "tests/backends/fiber_fixture.hpp"
#include "tests/property/check_property.hpp"
#include "tests/replay/drawn_plan.hpp"

// Equal ranks are replayed once: which they are, and that all figures are those of a replay of
// every rank.
namespace shardsim::test {
namespace {

void work(Runtime& runtime, std::int64_t bytes) {
  runtime.compute({"work", ComputeKind::memory_bound, DType::int8, 0, bytes}, [] {});
}

// Ranks 0 to 7 in pairs (0 1) (2 3) (4 5) (6 7), and in columns (0 2 4 6) (1 3 5 7).
RankPrograms recorded_grid(bool with_messages) {
  constexpr int kRanks = 8;
  Recorder recorder(kRanks);
  RankPrograms programs;
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto body = [&](Runtime& runtime, Communicator& world, ProgramWriter&) {
      const RankSpan pairs{.axes = {{{2, 1}}}, .size = 2};
      const RankSpan columns{.axes = {{{4, 2}}}, .size = 4};
      const auto pair = world.subgroup(pairs.around(rank), "pair");
      const auto column = world.subgroup(columns.around(rank), "column");
      const Tensor buffer = runtime.allocate(MemoryCategory::comm, {1'000'000}, DType::int8);
      work(runtime, 3'000'000);
      pair->all_reduce(buffer, ReduceOp::sum).wait();
      work(runtime, 1'000'000);
      column->all_reduce(buffer, ReduceOp::sum).wait();
      if (!with_messages) return;
      (pair->rank() == 0 ? pair->send(buffer, 1) : pair->recv(buffer, 0)).wait();
    };
    programs.programs.push_back(recorder.record(rank, body));
    programs.of_rank.push_back(with_messages ? rank % 2 : 0);
  }
  programs.programs.resize(with_messages ? 2 : 1);
  return programs;
}

using Ranks = std::vector<int>;

Ranks running(const Fold& fold) { return fold.running; }

std::vector<Ranks> lists(const Twins& twins, int size) {
  std::vector<Ranks> lists(twins.size());
  for (std::size_t twin = 0; twin < twins.size(); ++twin) {
    for (int member = 0; member < size; ++member) lists[twin].push_back(twins.rank(twin, member));
  }
  return lists;
}

using WorldLink = std::tuple<std::string, int, int, std::int64_t, std::int64_t>;

std::vector<WorldLink> links_of_world(const World& world) {
  std::vector<WorldLink> links;
  world.for_each_link([&](const LinkTraffic& link) {
    links.emplace_back(std::string(link.group), link.from_rank, link.to_rank, link.counts.sent,
                       link.counts.received);
  });
  std::ranges::sort(links);
  return links;
}

std::string difference(const World& shared, const World& whole) {
  for (int rank = 0; rank < whole.num_ranks(); ++rank) {
    const std::string where = "rank " + std::to_string(rank) + ": ";
    if (shared.rank(rank).now() != whole.rank(rank).now()) return where + "clock";
    if (shared.rank(rank).split() != whole.rank(rank).split()) return where + "split";
    if (shared.comm_busy(rank) != whole.comm_busy(rank)) return where + "busy";
    if (shared.ledger(rank).peak() != whole.ledger(rank).peak()) return where + "peak";
    if (shared.host_ledger(rank).peak() != whole.host_ledger(rank).peak()) return where + "host";
    if (shared.executed_flops(rank) != whole.executed_flops(rank)) return where + "flops";
  }
  if (shared.sent_by_rank() != whole.sent_by_rank()) return "sent";
  for (const auto& [name, counters] : whole.traffic()) {
    const TrafficCounters& own = shared.traffic().at(name);
    if (own.calls != counters.calls || own.messages != counters.messages) return name + ": calls";
    if (own.payload_sent != counters.payload_sent ||
        own.payload_received != counters.payload_received ||
        own.padding_sent != counters.padding_sent || own.scalar_sent != counters.scalar_sent) {
      return name + ": bytes";
    }
  }
  for (const char* const name : {kExpertLoad, kDroppedTokens}) {
    if (!std::ranges::equal(shared.tallied(name), whole.tallied(name))) return name;
  }
  if (links_of_world(shared) != links_of_world(whole)) return "links";
  if (shared.trace_hash() != whole.trace_hash()) return "hash";
  return "";
}

}  // namespace

TEST_CASE("equal ranks: columns of one speed are one rank, a slow rank tells its groups apart") {
  const RankPrograms programs = recorded_grid(false);
  const RecordedGroups groups = groups_of(programs, test_cluster(8, 2));
  CHECK(running(share_equal_ranks(groups, Ranks(8, 0), false)) == Ranks{0});
  // Rank 5 is slow: so rank 4 is like no other, and both columns have a slow pair in one place.
  CHECK(running(share_equal_ranks(groups, {0, 0, 0, 0, 0, 1, 0, 0}, false)) == Ranks{0, 1, 4, 5});
  // All in one place of each pair.
  CHECK(running(share_equal_ranks(groups, {0, 1, 0, 1, 0, 1, 0, 1}, false)) == Ranks{0, 1});
}

TEST_CASE("equal ranks: nodes count by who shares them, or by name where their links differ") {
  const RankPrograms programs = recorded_grid(false);
  // Nodes of four: the first two pairs share a node, and so do the last two.
  Cluster cluster = test_cluster(8, 4);
  CHECK(running(share_equal_ranks(groups_of(programs, cluster), Ranks(8, 0), false)) == Ranks{0});
  MachineFaults faults;
  faults.slow_links.push_back({.tier = LinkTier::intra_node, .node = 1, .bandwidth_factor = 0.5});
  cluster.faults = std::make_shared<const MachineFaults>(faults);
  CHECK(running(share_equal_ranks(groups_of(programs, cluster), Ranks(8, 0), false)) ==
        Ranks{0, 4});
}

TEST_CASE("equal ranks: groups in one pod are unlike those across pods, and cards count") {
  // Nodes of two: (0 1 2 3) are a pod, and so are the others; rows are pairs of nodes.
  Cluster cluster = test_cluster(8, 2);
  const RankPrograms programs = recorded_grid(false);
  cluster.nodes_per_pod = 2;
  CHECK(running(share_equal_ranks(groups_of(programs, cluster), Ranks(8, 0), false)) == Ranks{0});
  CHECK(placement_of(cluster, {0, 1, 2}) == placement_of(cluster, {4, 5, 6}));
  CHECK(placement_of(cluster, {0, 2}) != placement_of(cluster, {2, 4}));
  CHECK(placement_of(cluster, {0, 4}) == placement_of(cluster, {2, 6}));
  cluster = test_cluster(8, 4);
  cluster.nics_per_node = 2;
  CHECK(placement_of(cluster, {0, 1, 4, 5}) != placement_of(cluster, {1, 2, 5, 6}));
  CHECK(placement_of(cluster, {0, 1, 4, 5}) == placement_of(cluster, {2, 3, 6, 7}));
}

TEST_CASE("equal ranks: all members run where messages tell them apart") {
  const RankPrograms programs = recorded_grid(true);
  const RecordedGroups groups = groups_of(programs, test_cluster(8, 2));
  const Fold fold = share_equal_ranks(groups, programs.of_rank, true);
  CHECK(running(fold) == Ranks{0, 1});
  REQUIRE(fold.splits.size() == 2);
  REQUIRE(fold.splits[0].groups.size() == 1);
  CHECK(fold.splits[0].groups[0].members == Ranks{0, 1});
  CHECK(lists(fold.splits[0].groups[0].twins, 2) == std::vector<Ranks>{{2, 3}, {4, 5}, {6, 7}});
  CHECK(fold.splits[1].groups.size() == 2);
}

TEST_CASE("property: a replay of unequal ranks has all figures of a replay of every rank") {
  int compared = 0;
  int fewer = 0;
  check_property(100, [&] {
    std::optional<Scenario> scenario;
    std::optional<RankRecording> recording;
    std::optional<Experiment> experiment;
    try {
      experiment.emplace(load_scenario_text(draw_faulty_plan().text(), "drawn.json"));
      recording = record_ranks(*experiment, {}, nullptr);
    } catch (const Error&) {
      return;  // Its fields do not fit together.
    }
    if (!recording->programs) return;
    const RankPrograms& programs = *recording->programs;
    const Cluster& cluster = experiment->world().cluster;
    const bool buffered = experiment->world().buffered_sends;
    ReplayWorld whole({.cluster = cluster, .buffered_sends = buffered}, programs);
    whole.run();
    const Fold fold = share_equal_ranks(groups_of(programs, cluster),
                                        kinds_of(programs, experiment->faults()), true);
    ReplayWorld shared(
        {.cluster = cluster, .buffered_sends = buffered, .fold = &fold, .hashes_all = true},
        programs);
    shared.run();
    RC_ASSERT(difference(shared, whole) == "");
    ++compared;
    if (fold.running.size() < fold.place_of.size()) ++fewer;
  });
  CHECK(compared >= 50);
  CHECK(fewer >= 20);
}

}  // namespace shardsim::test
