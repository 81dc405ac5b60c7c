#include "sim/kernel/device_streams.hpp"

#include <catch2/catch.hpp>

#include "tests/units.hpp"

// Several streams of one device: clocks, events, and what is charged beside collectives, by hand.
namespace shardsim::test {
namespace {

Time sum_of(const TimeSplit& split) {
  return split.compute + split.exposed_comm + split.bubble + split.host;
}

constexpr StreamRules kSlowed = {.slowdown = 0.5};

// A collective from `start` to `end` that the stream in use posts and waits for at once.
void communicate(DeviceStreams& device, RankClock& clock, Time start, Time end) {
  device.charge(clock);
  clock.begin_collective(kSlowed);
  clock.wait(start, end, /*is_transfer=*/false, kSlowed);
  device.waited(start, end, /*is_transfer=*/false, clock);
}

}  // namespace

TEST_CASE("streams of a device go on beside each other, and their host is one") {
  RankClock clock;
  DeviceStreams device(2, 0, {}, clock);
  clock.launch(us(1), us(10), {});  // 1 .. 11
  device.use(1, clock);
  CHECK(device.in_use() == 1);
  CHECK(clock.now() == us(1));      // It was idle until the host turned to it.
  clock.launch(us(2), us(30), {});  // 3 .. 33
  clock.synchronize();
  device.use(0, clock);
  CHECK(clock.now() == us(33));  // The host comes back that late.
  CHECK(clock.split() == TimeSplit{.compute = us(10), .host = us(1 + 33 - 11)});
  clock.launch(us(1), us(1), {});
  CHECK(clock.now() == us(35));
  CHECK(sum_of(clock.split()) == clock.now());
}

TEST_CASE("an event carries its moment and the communication that its stream has waited for") {
  RankClock clock;
  DeviceStreams device(3, 3, {}, clock);
  device.use(1, clock);
  clock.compute(us(2));
  device.record(0, clock);  // Nothing has been communicated.
  clock.wait(us(7), us(13), /*is_transfer=*/true, {});
  device.waited(us(7), us(13), /*is_transfer=*/true, clock);
  device.record(1, clock);
  device.use(2, clock);
  device.wait(1, clock);  // Another stream passes it on, with work of its own.
  clock.compute(us(4));
  device.record(2, clock);
  device.use(0, clock);
  device.wait(0, clock);
  CHECK(clock.split() == TimeSplit{.bubble = us(2)});
  device.wait(2, clock);
  CHECK(clock.now() == us(17));
  CHECK(clock.split() == TimeSplit{.exposed_comm = us(17 - 7), .bubble = us(7)});
  device.wait(1, clock);  // It was long ago.
  CHECK(clock.now() == us(17));
}

TEST_CASE("computing beside a collective is charged for on every stream, in any order") {
  for (const bool computes_first : {false, true}) {
    INFO(computes_first);
    RankClock clock;
    DeviceStreams device(3, 0, kSlowed, clock);
    const auto compute = [&] {
      clock.compute(us(6));  // 0 .. 6
      device.charge(clock);
    };
    if (computes_first) compute();
    device.use(1, clock);
    communicate(device, clock, us(2), us(5));
    device.use(2, clock);
    communicate(device, clock, us(4), us(9));  // 4 .. 5 is the other's.
    device.use(0, clock);
    if (!computes_first) compute();
    device.charge(clock);  // Once.
    CHECK(clock.now() == us(6 + (3 + 1) * 0.5));
    CHECK(clock.split().compute == clock.now());
  }
}

TEST_CASE("collectives that overlap are one time in which others are slowed") {
  RankClock clock;
  DeviceStreams device(2, 0, kSlowed, clock);
  device.use(1, clock);
  communicate(device, clock, us(1), us(3));
  communicate(device, clock, us(7), us(9));
  communicate(device, clock, us(20), us(21));
  communicate(device, clock, us(2), us(8));  // It fills the gap.
  device.use(0, clock);
  clock.compute(us(10));
  device.charge(clock);
  CHECK(clock.now() == us(10 + 8 * 0.5));
  clock.compute(us(6));  // 14 .. 20
  device.charge(clock);
  CHECK(clock.now() == us(20));
}

TEST_CASE("what no stream can meet any more is forgotten, and nothing else") {
  RankClock clock;
  DeviceStreams device(2, 0, kSlowed, clock);
  Time at;
  for (int turn = 0; turn < 100; ++turn) {
    clock.launch(us(10), us(4), {});  // Each turn computes after a gap.
    device.charge(clock);
    at = clock.now();
    device.use(1, clock);
    communicate(device, clock, at - us(1), at + us(1));  // The last 1 us is beside it.
    device.use(0, clock);
    CHECK(clock.now() == at + us(0.5));
  }
}

}  // namespace shardsim::test
