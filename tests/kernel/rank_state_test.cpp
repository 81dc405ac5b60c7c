#include "sim/kernel/rank_state.hpp"

#include <catch2/catch.hpp>

// The two clocks of a rank: its compute stream and the host that feeds it.
namespace shardsim {
namespace {

Time us(double microseconds) { return Time::from_seconds(microseconds * 1e-6); }

Time sum_of(const TimeSplit& split) {
  return split.compute + split.exposed_comm + split.bubble + split.host;
}

}  // namespace

TEST_CASE("the host runs ahead of long work and holds up short work") {
  RankState rank(0);
  rank.issue(us(10));
  rank.compute("long", us(100));  // 10 .. 110
  CHECK(rank.now() == us(110));
  for (int i = 0; i < 4; ++i) {  // Issued at 20, 30, 40, 50.
    rank.issue(us(10));
    rank.compute("short", us(1));
  }
  CHECK(rank.now() == us(114));   // It was 60 us ahead.
  for (int i = 0; i < 10; ++i) {  // Issued at 60 .. 150: the stream is empty from 114 + 6 on.
    rank.issue(us(10));
    rank.compute("short", us(1));
  }
  CHECK(rank.now() == us(151));
  CHECK(rank.split().host == us(10 + 151 - 114 - 10));
  CHECK(rank.split().compute == us(114));
  CHECK(sum_of(rank.split()) == rank.now());
}

TEST_CASE("a host that waits for the stream has nothing in store") {
  RankState rank(0);
  rank.compute("long", us(100));
  rank.synchronize();
  rank.issue(us(10));
  rank.compute("short", us(1));
  CHECK(rank.now() == us(111));
  CHECK(rank.split().host == us(10));
}

TEST_CASE("without host time nothing waits for the host") {
  RankState rank(0);
  rank.compute("a", us(3));
  rank.issue(Time());
  rank.synchronize();
  rank.issue(Time());
  rank.compute("b", us(4));
  CHECK(rank.now() == us(7));
  CHECK(rank.split().host == Time());
}

TEST_CASE("work beside a communication took longer, by the time they shared, once") {
  RankState rank(0);
  for (int i = 0; i < 4; ++i) rank.begin_beside();
  rank.compute("work", us(60));
  rank.compute("more", us(40));
  rank.end_beside(us(20), us(60), 0.25);  // 40 us of it.
  CHECK(rank.now() == us(110));
  rank.end_beside(us(40), us(70), 0.25);  // 10 us more.
  CHECK(rank.now() == us(112.5));
  rank.end_beside(us(10), us(70), 0.25);  // And 10 us before.
  CHECK(rank.now() == us(115));
  CHECK(rank.split().compute == us(115));
  // One that is still under way has shared only what has been done and not charged for: 40 us.
  rank.end_beside(us(0), us(500), 0.5);
  CHECK(rank.now() == us(115 + 20));
  rank.advance_to(us(0), us(500));
  CHECK(rank.split().exposed_comm == us(365));
  CHECK(sum_of(rank.split()) == rank.now());
}

TEST_CASE("a communication that is waited for at once hides nothing from one posted before") {
  RankState rank(0);
  rank.begin_beside();
  rank.compute("work", us(100));
  rank.begin_beside();
  rank.end_beside(us(100), us(120), 0.5);  // Beside nothing.
  rank.advance_to(us(100), us(120));
  CHECK(rank.now() == us(120));
  rank.end_beside(us(0), us(100), 0.5);
  CHECK(rank.now() == us(170));
}

TEST_CASE("idle time beside a communication is not computing") {
  RankState rank(0);
  rank.begin_beside();
  rank.advance_to(us(0), us(8));  // Another one is waited for.
  rank.issue(us(9));
  rank.compute("work", us(2));  // 9 .. 11
  rank.end_beside(us(0), us(10), 0.5);
  CHECK(rank.now() == us(11.5));
}

TEST_CASE("what was computed with nothing beside it is not charged for later") {
  RankState rank(0);
  rank.compute("alone", us(100));
  rank.begin_beside();
  rank.end_beside(us(0), us(100), 0.5);  // Cannot be, but for the times.
  CHECK(rank.now() == us(100));
}

}  // namespace shardsim
