#include "backends/replay/replay_lanes.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/random.hpp"

#include "backends/program/recorder.hpp"
#include "backends/replay/replay_world.hpp"

#include "strategies/pipeline/schedule.hpp"

#include "tests/backends/fiber_fixture.hpp"
#include "tests/units.hpp"

// Draws of faults beside a replay: each lane's times by hand, by closed forms, and against a replay
// on a machine that has the lane's faults.
namespace shardsim::test {
namespace {

using Body = std::function<void(Runtime&, Communicator&)>;

// The body of each rank is a step.
RankPrograms recorded_step(int ranks, const Body& body) {
  Recorder recorder(ranks);
  RankPrograms programs;
  for (int rank = 0; rank < ranks; ++rank) {
    programs.programs.push_back(
        recorder.record(rank, [&](Runtime& runtime, Communicator& world, ProgramWriter& writer) {
          writer.mark({ProgramMark::Kind::step_begins, 0});
          body(runtime, world);
          writer.mark({ProgramMark::Kind::step_ends, 0});
        }));
    programs.of_rank.push_back(rank);
  }
  return programs;
}

std::vector<Time> lane_times(const Cluster& cluster, const RankPrograms& programs,
                             LaneOptions options, bool buffered = false) {
  ReplayLanes lanes(std::move(options));
  ReplayWorld world({.cluster = cluster, .buffered_sends = buffered, .lanes = &lanes}, programs);
  world.run();
  return lanes.step_times();
}

Time end_of(const Cluster& cluster, const RankPrograms& programs, bool buffered = false) {
  ReplayWorld world({.cluster = cluster, .buffered_sends = buffered}, programs);
  world.run();
  Time end;
  for (int rank = 0; rank < cluster.num_ranks(); ++rank) end = max(end, world.rank(rank).now());
  return end;
}

Cluster slowed(Cluster cluster, std::vector<double> slowdown) {
  cluster.faults =
      std::make_shared<const MachineFaults>(MachineFaults{.slowdown = std::move(slowdown)});
  return cluster;
}

std::vector<double> slowdowns_of(int ranks, std::uint64_t seed) {
  const RandomStream random(seed, "slowdowns");
  std::vector<double> slowdown;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto index = static_cast<std::uint64_t>(rank);
    slowdown.push_back(random.uniform(2 * index) < 0.6 ? 1.0 : 1.0 + random.uniform(2 * index + 1));
  }
  return slowdown;
}

void busy_for(Runtime& runtime, std::int64_t bytes) {
  runtime.compute({"work", ComputeKind::memory_bound, DType::int8, 0, bytes}, [] {});
}

// Collectives that come behind others, batches, messages and groups of groups.
void mixed_body(Runtime& runtime, Communicator& world) {
  const int rank = world.rank();
  const RankSpan pairs{.axes = {{{2, 1}}}, .size = 2};
  const RankSpan rows{.axes = {{{4, 2}}}, .size = 4};
  const auto pair = world.subgroup(pairs.around(rank), "pair");
  const auto row = world.subgroup(rows.around(rank), "row");
  const Tensor part = runtime.allocate(MemoryCategory::comm, {300'000}, DType::int8);
  const Tensor whole = runtime.allocate(MemoryCategory::comm, {2'000'000}, DType::int8);
  for (int turn = 0; turn < 3; ++turn) {
    busy_for(runtime, 1'000'000 * (rank % 3 + turn));
    Work sum = row->all_reduce(whole, ReduceOp::sum, {.label = "gradients"});
    busy_for(runtime, 400'000);
    Work behind = pair->all_reduce(part, ReduceOp::sum, {.after = &sum});
    const P2pOp both[] = {{P2pOp::Kind::send, whole, (row->rank() + 1) % 4},
                          {P2pOp::Kind::recv, whole, (row->rank() + 3) % 4}};
    Work ring = row->batch(both);
    busy_for(runtime, 7000);
    behind.wait();
    // It comes first on its stream, and behind what its rank has not waited for.
    pair->all_reduce(part, ReduceOp::sum, {.after = &sum}).wait();
    ring.wait();
    sum.wait();
    world.barrier({.traffic = TrafficClass::scalar}).wait();
  }
}

// Without times of a host and overlap, with those of a host, with both, and where it waits.
constexpr int kVariants = 4;
Cluster varied_cluster(int ranks, int variant) {
  Cluster cluster = test_cluster(ranks, 4);
  cluster.device.host_s_per_kernel = variant == 0 ? 0.0 : 3e-6;
  cluster.device.host_s_per_call = variant == 0 ? 0.0 : 2e-6;
  cluster.device.slowdown_beside_collectives = variant >= 2 ? 0.3 : 0.0;
  cluster.device.host_waits_for_kernels = variant == 3;
  return cluster;
}

double standard_error(const std::vector<double>& values, double mean) {
  double squares = 0.0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const auto count = static_cast<double>(values.size());
  return std::sqrt(squares / (count - 1.0) / count);
}

double mean_of(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace

TEST_CASE("lanes: each has the times of a machine with its stragglers, bit by bit") {
  constexpr int kRanks = 8;
  const RankPrograms programs = recorded_step(kRanks, mixed_body);
  for (const bool buffered : {false, true}) {
    for (int variant = 0; variant < kVariants; ++variant) {
      const Cluster cluster = varied_cluster(kRanks, variant);
      LaneOptions options;
      for (std::uint64_t lane = 0; lane < 6; ++lane) {
        options.lanes.push_back(
            {lane == 0 ? std::vector<double>() : slowdowns_of(kRanks, lane), 0});
      }
      const std::vector<Time> times = lane_times(cluster, programs, options, buffered);
      for (std::size_t lane = 0; lane < times.size(); ++lane) {
        INFO("variant " << variant << ", buffered " << buffered << ", lane " << lane);
        const Cluster own = lane == 0 ? cluster : slowed(cluster, options.lanes[lane].slowdown);
        CHECK(times[lane] == end_of(own, programs, buffered));
      }
      CHECK(times[1] > times[0]);
    }
  }
}

TEST_CASE("lanes: a factor of one changes nothing, and one of two doubles what it is on") {
  const FactorTable one([](double) { return 1.0; });
  const FactorTable two([](double) { return 2.0; });
  const RankPrograms programs = recorded_step(8, mixed_body);
  for (int variant = 0; variant < kVariants; ++variant) {
    const Cluster varied = varied_cluster(8, variant);
    CHECK(lane_times(varied, programs, {.lanes = {{}}, .compute = &one, .communication = &one}) ==
          std::vector<Time>{end_of(varied, programs)});
  }
  // Overlap alone: then a stretch is one piece of work.
  Cluster overlapping = test_cluster(8, 4);
  overlapping.device.slowdown_beside_collectives = 0.3;
  CHECK(lane_times(overlapping, programs, {.lanes = {{}}, .compute = &one}) ==
        std::vector<Time>{end_of(overlapping, programs)});
  const Cluster cluster = test_cluster(8, 4);
  const Cluster slow = slowed(cluster, std::vector<double>(8, 2.0));
  CHECK(lane_times(cluster, programs, {.lanes = {{}}, .compute = &two}) ==
        std::vector<Time>{end_of(slow, programs)});
  Cluster slow_links = cluster;
  for (Link* link : {&slow_links.intra_node, &slow_links.inter_node}) {
    link->latency_s = 2.0 * link->latency_s;
    link->bytes_per_s = link->bytes_per_s / 2.0;
  }
  CHECK(lane_times(cluster, programs, {.lanes = {{}}, .communication = &two}) ==
        std::vector<Time>{end_of(slow_links, programs)});
}

TEST_CASE("lanes: one slow stage lengthens 1f1b as the closed form says") {
  constexpr int kStages = 5;
  constexpr int kMicrobatches = 11;
  constexpr std::int64_t kForward = 3;  // Picoseconds.
  constexpr std::int64_t kBackward = 7;
  const PipelineSchedule schedule =
      make_schedule("1f1b", {.num_ranks = kStages, .num_microbatches = kMicrobatches});
  const RankPrograms programs = recorded_step(kStages, [&](Runtime& runtime, Communicator& world) {
    const auto down = world.subgroup(RankSpan::line(kStages), "down");
    const auto up = world.subgroup(RankSpan::line(kStages), "up");
    const Tensor message = runtime.allocate(MemoryCategory::comm, {1}, DType::int8);
    const int rank = world.rank();
    for (const Action& action : schedule.actions[static_cast<std::size_t>(rank)]) {
      const bool forward = action.kind == ActionKind::forward;
      const int from = forward ? rank - 1 : rank + 1;
      const int to = forward ? rank + 1 : rank - 1;
      Communicator& stream = forward ? *down : *up;
      if (from >= 0 && from < kStages) stream.recv(message, from).wait();
      runtime.compute(
          {"action", ComputeKind::matmul, DType::fp32, forward ? kForward : kBackward, 0}, [] {});
      if (to >= 0 && to < kStages) stream.send(message, to).wait();
    }
  });
  Cluster cluster = test_cluster(kStages);
  cluster.intra_node = {.bytes_per_s = 1e300, .latency_s = 0.0};
  LaneOptions options;
  std::vector<Time> expected;
  for (int slow = 0; slow < kStages; ++slow) {
    for (const std::int64_t k : {1, 2, 3, 5}) {
      std::vector<double> slowdown(kStages, 1.0);
      slowdown[static_cast<std::size_t>(slow)] = static_cast<double>(k);
      options.lanes.push_back({slowdown, 0});
      // docs/guide/faults.md, "Stragglers".
      const std::int64_t both = kForward + kBackward;
      expected.push_back(Time::from_picoseconds(
          kMicrobatches * k * both + slow * both +
          (kStages - 1 - slow) * (std::max<std::int64_t>(0, both - k * kForward) +
                                  std::max<std::int64_t>(0, both - k * kBackward))));
    }
  }
  CHECK(lane_times(cluster, programs, options, true) == expected);
}

TEST_CASE("lanes: independent ranks that meet have the expected maximum of their jitter") {
  constexpr int kRanks = 16;
  constexpr std::size_t kDraws = 4000;
  constexpr double kSpread = 0.5;
  const RankPrograms programs = recorded_step(kRanks, [](Runtime& runtime, Communicator& world) {
    busy_for(runtime, 1'000'000);  // 1 us.
    world.barrier().wait();
  });
  Cluster cluster = test_cluster(kRanks);
  cluster.intra_node = {.bytes_per_s = 1e300, .latency_s = 0.0};
  const auto mean_factor = [&](const FactorTable& table) {
    LaneOptions options{.lanes = {}, .compute = &table};
    for (std::size_t draw = 0; draw < kDraws; ++draw) {
      options.lanes.push_back({{}, RandomStream(draw, "lanes").bits(0)});
    }
    std::vector<double> factors;
    for (const Time time : lane_times(cluster, programs, options)) {
      factors.push_back(time.seconds() / 1e-6);
    }
    const double mean = mean_of(factors);
    return std::pair(mean, standard_error(factors, mean));
  };
  const FactorTable uniform([](double share) { return 1.0 + kSpread * share; });
  const auto [mean, error] = mean_factor(uniform);
  // The mean of the largest of n uniform numbers is n / (n + 1).
  CHECK(std::fabs(mean - (1.0 + kSpread * kRanks / (kRanks + 1.0))) < 3.0 * error);
  CHECK(error < 0.001);
  const FactorTable exponential([](double share) { return 1.0 - kSpread * std::log1p(-share); });
  const auto [longest, its_error] = mean_factor(exponential);
  double harmonic = 0.0;  // That of n exponential ones is 1 + 1/2 + ... + 1/n.
  for (int n = 1; n <= kRanks; ++n) harmonic += 1.0 / n;
  CHECK(std::fabs(longest - (1.0 + kSpread * harmonic)) < 3.0 * its_error);
  CHECK(its_error < 0.01 * longest);
}

TEST_CASE("lanes: a draw does not depend on those beside it") {
  const FactorTable table([](double share) { return 0.9 + share; });
  const RankPrograms programs = recorded_step(8, mixed_body);
  const Cluster cluster = test_cluster(8, 4);
  LaneOptions options{.lanes = {}, .compute = &table, .communication = &table};
  for (std::uint64_t lane = 0; lane < 7; ++lane) {
    options.lanes.push_back({slowdowns_of(8, lane), RandomStream(lane, "lanes").bits(0)});
  }
  const std::vector<Time> together = lane_times(cluster, programs, options);
  for (std::size_t lane = 0; lane < together.size(); ++lane) {
    LaneOptions alone = options;
    alone.lanes = {options.lanes[lane]};
    CHECK(lane_times(cluster, programs, alone) == std::vector<Time>{together[lane]});
  }
  CHECK(std::ranges::adjacent_find(together) == together.end());
}

TEST_CASE("a table of factors has the quantiles that it was made of") {
  const auto quantile = [](double share) { return 1.0 + share * share; };
  const FactorTable table(quantile);
  const RandomStream random(20261126, "table");
  double worst = 0.0;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    const std::uint64_t bits = random.bits(i);
    const double share = static_cast<double>(bits) * 0x1p-64;
    worst = std::max(worst, std::fabs(table.at(bits) - quantile(share)));
  }
  // Between knots h = 2^-10 apart a parabola of second derivative 2 is h^2 / 4 above its chord.
  CHECK(worst < 0x1p-22 * 1.0001);
  // Its ends are finer: a tail that goes to infinity is met to a billionth.
  const FactorTable tail([](double share) { return 1.0 / (1.0 - share); });
  const auto at_share = [&](double above) {
    return tail.at(~static_cast<std::uint64_t>(above * 0x1p64));
  };
  CHECK(at_share(0x1p-15) == Approx(0x1p15).epsilon(0.01));
  CHECK(at_share(0x1p-25) == Approx(0x1p25).epsilon(0.01));
  CHECK(tail.at(0) < 1.0 + 1e-8);
}

}  // namespace shardsim::test
