#include <vector>

#include <catch2/catch.hpp>

#include "sim/hardware/nccl/execution.hpp"

#include "tests/hardware/nccl_machines.hpp"

// How long what NCCL chose takes: worked out by hand from the constants of decision 0088.
namespace shardsim {
namespace {

using testing::dgx_a100;
using testing::dgx_b200;
using testing::dgx_h100;
using Kind = CollectiveKind;

constexpr std::int64_t kBytes = 8'000'000;

NcclPrice inside(const NcclPlatform& platform, int ranks, Kind kind, std::int64_t bytes = kBytes) {
  return nccl_price(nodes_of(1, platform), all_from_zero(ranks), kind, bytes);
}

NcclPlatform only(const char* algorithms, const char* protocols) {
  NcclPlatform platform = dgx_h100();
  platform.overrides.selection = NcclSelection(algorithms, protocols);
  return platform;
}

}  // namespace

TEST_CASE("a ring takes its launch, its steps, a ramp, its links and a copy of the own part") {
  // 7 steps; 7 MB over 1.009 x 360 GB/s, and 1 MB that stays.
  const NcclPrice gather = inside(dgx_h100(), 8, Kind::all_gather);
  CHECK(gather.latency_us == Approx(4.94 + 7 * 0.809 + 21.4 * 8 / (8 + 5)));
  CHECK(gather.transfer_us == Approx(7e3 / (1.009 * 360) + 1.221));
  CHECK(sum_of(inside(dgx_h100(), 8, Kind::reduce_scatter)) == Approx(sum_of(gather)));
  // Twice as many steps and bytes; the same copy.
  const NcclPrice reduce = inside(dgx_a100(), 8, Kind::all_reduce);
  CHECK(reduce.latency_us == Approx(8.65 + 14 * 0.94 + 43.0 * 8 / (8 + 4)));
  CHECK(reduce.transfer_us == Approx(14e3 / (0.908 * 240) + 1.189));
  // Half stays.
  const NcclPrice pair = inside(dgx_b200(), 2, Kind::all_gather);
  CHECK(pair.latency_us == Approx(7.78 + 1.31 + 17.5 * 8 / (8 + 6)));
  CHECK(pair.transfer_us == Approx(4e3 / (0.963 * 720) + 4 * 0.742));
  // All of it passes each link once, and no rank has a part of its own.
  const NcclPrice chain = inside(dgx_h100(), 8, Kind::broadcast);
  CHECK(chain.latency_us == Approx(gather.latency_us));
  CHECK(chain.transfer_us == Approx(8e3 / (1.009 * 360)));
}

TEST_CASE("a sum in the switch has constants of its own") {
  const std::int64_t bytes = 80'000'000;
  const NcclPrice sum = inside(dgx_h100(), 8, Kind::all_reduce, bytes);
  CHECK(sum.latency_us == Approx(25.0 + 74.4 * 80 / (80 + 20)));
  CHECK(sum.transfer_us == Approx(8e4 / (0.987 * 272)));
  CHECK(sum.algorithm == Algorithm::ring);
}

TEST_CASE("what NCCL would not choose takes longer by as much as its tuner says") {
  const std::int64_t bytes = 80'000'000;
  const auto time = [bytes](const NcclPlatform& platform) {
    return sum_of(inside(platform, 8, Kind::all_gather, bytes));
  };
  const auto tuner = [bytes](const NcclPlatform& platform) {
    NcclQuery call{.kind = Kind::all_gather, .bytes = bytes};
    return nccl_choice(platform, full_nodes(platform, 1), call).time_us;
  };
  const double plain = time(dgx_h100());
  CHECK(time(only("ring", "simple")) == plain);
  CHECK(time(only("ring", "ll")) ==
        Approx(plain * tuner(only("ring", "ll")) / tuner(only("ring", "simple"))));
  CHECK(time(only("ring", "ll")) > 2 * plain);
  // Rings and the switch are apart: rings alone cost what they cost, whatever NVLS would take.
  const NcclPrice rings = inside(only("ring", ""), 8, Kind::all_reduce, bytes);
  CHECK(rings.transfer_us == Approx(14e4 / (1.009 * 360) + 10 * 1.221));
}

TEST_CASE("messages and exchanges inside a domain") {
  const NcclTime message = exchange_time(dgx_h100(), {.near_bytes = 8e6, .near_peers = 1}, 1);
  CHECK(message.latency_us == Approx(6.63 + 0.121 + 9.5 * 8 / (8 + 0.5)));
  CHECK(message.transfer_us == Approx(8e3 / (0.809 * 370.8)));
  // 7 MB to others, 1 MB to itself.
  const NcclPrice exchange = inside(dgx_h100(), 8, Kind::all_to_all);
  CHECK(exchange.latency_us == Approx(6.63 + 7 * 0.121 + 9.5 * 8 / (8 + 0.5)));
  CHECK(exchange.transfer_us == Approx(7e3 / (0.809 * 370.8) + 0.284));
  CHECK(sum_of(inside(dgx_h100(), 8, Kind::scatter)) == Approx(sum_of(exchange)));
}

TEST_CASE("between nodes messages take a launch, a hop, and their bytes over the slower link") {
  const NcclExchange far{.far_bytes = 48e6, .far = true};
  CHECK(sum_of(exchange_time(dgx_h100(), far, 1.0)) == Approx(5 + 14 + 1000.0));  // PCIe 5
  CHECK(sum_of(exchange_time(dgx_h100(), far, 2.0)) == Approx(5 + 14 + 2000.0));
  CHECK(sum_of(exchange_time(dgx_h100(), far, 0.5)) == Approx(5 + 14 + 1000.0));
  // The near bytes travel meanwhile, and here they take longer.
  const NcclExchange both{.near_bytes = 370.8e6, .near_peers = 7, .far_bytes = 48e6, .far = true};
  CHECK(sum_of(exchange_time(dgx_h100(), both, 1.0)) == Approx(5 + 14 + 1000.0 / 0.809));
}

TEST_CASE("between nodes a collective has to fill, whatever the tuner says") {
  const NcclPlatform platform = dgx_h100();
  for (const std::int64_t bytes : {std::int64_t{42'000'000}, std::int64_t{4'200'000'000}}) {
    NcclQuery call;
    call.bytes = bytes;
    const double tuner = nccl_choice(platform, full_nodes(platform, 2), call).time_us;
    const double share = static_cast<double>(bytes) / (static_cast<double>(bytes) + 42e6);
    CHECK(sum_of(nccl_price(nodes_of(2, platform), all_from_zero(16), Kind::all_reduce, bytes)) ==
          Approx(tuner + 180 * share));
  }
}

}  // namespace shardsim
