#include "sim/kernel/rank_clock.hpp"

#include <cstdint>
#include <set>
#include <utility>

#include <catch2/catch.hpp>

#include "sim/kernel/random.hpp"

// The two clocks of a rank: its compute stream and the host that feeds it.
namespace shardsim {
namespace {

Time us(double microseconds) { return Time::from_seconds(microseconds * 1e-6); }

Time sum_of(const TimeSplit& split) {
  return split.compute + split.exposed_comm + split.bubble + split.host;
}

}  // namespace

TEST_CASE("the host runs ahead of long work and holds up short work") {
  RankClock clock;
  clock.issue(us(10));
  clock.compute(us(100));  // 10 .. 110
  CHECK(clock.now() == us(110));
  for (int i = 0; i < 4; ++i) {  // Issued at 20, 30, 40, 50.
    clock.issue(us(10));
    clock.compute(us(1));
  }
  CHECK(clock.now() == us(114));  // It was 60 us ahead.
  for (int i = 0; i < 10; ++i) {  // Issued at 60 .. 150: the stream is empty from 114 + 6 on.
    clock.issue(us(10));
    clock.compute(us(1));
  }
  CHECK(clock.now() == us(151));
  CHECK(clock.split().host == us(10 + 151 - 114 - 10));
  CHECK(clock.split().compute == us(114));
  CHECK(sum_of(clock.split()) == clock.now());
}

TEST_CASE("a host that waits for the stream has nothing in store") {
  RankClock clock;
  clock.compute(us(100));
  clock.synchronize();
  clock.issue(us(10));
  clock.compute(us(1));
  CHECK(clock.now() == us(111));
  CHECK(clock.split().host == us(10));
}

TEST_CASE("without host time nothing waits for the host") {
  RankClock clock;
  clock.compute(us(3));
  clock.issue(Time());
  clock.synchronize();
  clock.issue(Time());
  clock.compute(us(4));
  CHECK(clock.now() == us(7));
  CHECK(clock.split().host == Time());
}

TEST_CASE("work beside a communication took longer, by the time they shared, once") {
  RankClock clock;
  for (int i = 0; i < 4; ++i) clock.begin_beside();
  clock.compute(us(60));
  clock.compute(us(40));
  clock.end_beside(us(20), us(60), 0.25);  // 40 us of it.
  CHECK(clock.now() == us(110));
  clock.end_beside(us(40), us(70), 0.25);  // 10 us more.
  CHECK(clock.now() == us(112.5));
  clock.end_beside(us(10), us(70), 0.25);  // And 10 us before.
  CHECK(clock.now() == us(115));
  CHECK(clock.split().compute == us(115));
  // One that is still under way has shared only what has been done and not charged for: 40 us.
  clock.end_beside(us(0), us(500), 0.5);
  CHECK(clock.now() == us(115 + 20));
  clock.advance_to(us(0), us(500));
  CHECK(clock.split().exposed_comm == us(365));
  CHECK(sum_of(clock.split()) == clock.now());
}

TEST_CASE("a communication that is waited for at once hides nothing from one posted before") {
  RankClock clock;
  clock.begin_beside();
  clock.compute(us(100));
  clock.begin_beside();
  clock.end_beside(us(100), us(120), 0.5);  // Beside nothing.
  clock.advance_to(us(100), us(120));
  CHECK(clock.now() == us(120));
  clock.end_beside(us(0), us(100), 0.5);
  CHECK(clock.now() == us(170));
}

TEST_CASE("idle time beside a communication is not computing") {
  RankClock clock;
  clock.begin_beside();
  clock.advance_to(us(0), us(8));  // Another one is waited for.
  clock.issue(us(9));
  clock.compute(us(2));  // 9 .. 11
  clock.end_beside(us(0), us(10), 0.5);
  CHECK(clock.now() == us(11.5));
}

TEST_CASE("what was computed with nothing beside it is not charged for later") {
  RankClock clock;
  clock.compute(us(100));
  clock.begin_beside();
  clock.end_beside(us(0), us(100), 0.5);  // Cannot be, but for the times.
  CHECK(clock.now() == us(100));
}

TEST_CASE("charges are those of a list of moments, and a clock that lies elsewhere has the same") {
  const auto ps = [](std::int64_t count) { return Time::from_picoseconds(count); };
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const RandomStream random(seed, "beside");
    RankClock clock;
    Time at;
    Time host;
    ComputedBeside computed;
    StreamClock<ClockView> bare({at, host, 0, computed});
    std::set<std::int64_t> moments;  // Computed, and not charged for.
    std::int64_t now = 0;
    int beside = 0;
    for (std::uint64_t i = 0; i < 60; ++i) {
      const auto first = static_cast<std::int64_t>(random.below(3 * i, 9));
      const auto second = static_cast<std::int64_t>(random.below(3 * i + 1, 9));
      switch (random.below(3 * i + 2, 4)) {
        case 0:
          clock.begin_beside();
          bare.begin_beside();
          ++beside;
          break;
        case 1:
          clock.compute(ps(first));
          bare.compute(ps(first));
          for (std::int64_t n = 0; n < first && beside > 0; ++n) moments.insert(now + n);
          now += first;
          break;
        case 2:
          clock.advance_to(ps(now), ps(now + first));
          bare.advance_to(ps(now), ps(now + first));
          now += first;
          break;
        default: {
          if (beside == 0) break;
          const std::int64_t start = now - 2 * first > 0 ? now - 2 * first : 0;
          clock.end_beside(ps(start), ps(start + second), 1.0);
          bare.end_beside(ps(start), ps(start + second), 1.0);
          for (std::int64_t n = start; n < start + second; ++n) {
            now += static_cast<std::int64_t>(moments.erase(n));
          }
          if (--beside == 0) moments.clear();
        }
      }
      REQUIRE(clock.now() == ps(now));
      REQUIRE(at == ps(now));
      REQUIRE(bare.num_beside() == beside);
      REQUIRE(sum_of(clock.split()) == clock.now());
    }
  }
}

TEST_CASE("a stretch whose prices change costs what its works cost one by one") {
  const auto ps = [](std::int64_t count) { return Time::from_picoseconds(count); };
  for (const bool waits : {true, false}) {
    for (const bool host_is_free : {true, false}) {
      const StreamRules rules{.waits_for_kernels = waits};
      const Time host = host_is_free ? Time() : ps(40);
      ClockStretch stretch(rules);
      RankClock one_by_one;
      Time sum;
      for (const int price : {30, 7, 50, 11}) {
        stretch.launch(host, ps(price));
        one_by_one.launch(host, ps(2 * price), rules);
        sum += ps(2 * price);
      }
      RankClock changed;
      changed.run(stretch, [](Time price) { return price + price; });
      CHECK(changed.now() == one_by_one.now());
      CHECK(changed.issued() == one_by_one.issued());
      CHECK(stretch.host_is_free() == host_is_free);
      if (!host_is_free) continue;
      RankClock as_one;
      as_one.run_as_one(stretch, sum);
      CHECK(as_one.now() == one_by_one.now());
      CHECK(as_one.issued() == one_by_one.issued());
      CHECK(as_one.split() == one_by_one.split());
      stretch.synchronize();
      CHECK_FALSE(stretch.host_is_free());
    }
  }
}

TEST_CASE("a kernel waits for its host, and the host for it where the rules say so") {
  RankClock free;
  CHECK(free.launch(us(5), us(50), {}) == us(5));
  CHECK(free.issued() == us(5));
  RankClock blocked;
  CHECK(blocked.launch(us(5), us(50), {.waits_for_kernels = true}) == us(5));
  CHECK(blocked.issued() == us(55));
}

TEST_CASE("a communication starts behind the work before it, or when the host posts it") {
  const StreamRules rules{.call_price = us(2)};
  RankClock clock;
  clock.compute(us(100));
  CHECK(clock.post(false, rules) == us(100));
  CHECK(clock.post(true, rules) == us(4));
}

TEST_CASE("rules of waiting tell transfers and collectives apart") {
  const auto after = [](bool is_transfer, const StreamRules& rules) {
    RankClock clock;
    clock.begin_collective(rules);
    clock.compute(us(40));
    clock.wait(us(0), us(20), is_transfer, rules);
    return std::pair(clock.now(), clock.issued());
  };
  CHECK(after(false, {}) == std::pair(us(40), us(0)));
  CHECK(after(false, {.slowdown = 0.5}) == std::pair(us(50), us(0)));
  CHECK(after(true, {.slowdown = 0.5}) == std::pair(us(40), us(0)));
  CHECK(after(true, {.waits_for_transfers = true}) == std::pair(us(40), us(40)));
  CHECK(after(false, {.waits_for_transfers = true}) == std::pair(us(40), us(0)));
  CHECK(after(false, {.waits_for_kernels = true}) == std::pair(us(40), us(40)));
}

}  // namespace shardsim
