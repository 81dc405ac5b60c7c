#include "sim/kernel/tracked.hpp"

#include <catch2/catch.hpp>

using namespace shardsim;

namespace {

Tracked<double> marked(double value, ReadMark mark) {
  Tracked<double> tracked = value;
  tracked.set_mark(mark);
  return tracked;
}

}  // namespace

TEST_CASE("a marked value is read where it is converted, not where it is copied") {
  ReadLog log;
  const ReadLog::Scope noted(&log);
  const Tracked<double> value = marked(2.0, 7);
  const Tracked<double> copy = value;
  const Tracked<double> scaled = copy.times(3.0);
  CHECK(scaled.peek() == 6.0);
  CHECK(scaled.mark() == 7);
  CHECK_FALSE(log.was_read(7));
  CHECK(1.0 + scaled == 7.0);
  CHECK(log.was_read(7));
  CHECK_FALSE(log.was_read(6));
  CHECK_FALSE(log.was_read(8));
}

TEST_CASE("a map keeps the mark for another type") {
  ReadLog log;
  const ReadLog::Scope noted(&log);
  const Tracked<int> links =
      marked(450.0, 3).map([](double rate) { return static_cast<int>(rate / 25); });
  CHECK_FALSE(log.was_read(3));
  CHECK(links == 18);
  CHECK(log.was_read(3));
}

TEST_CASE("who reads a value that follows from two reads both") {
  ReadLog log;
  const ReadLog::Scope noted(&log);
  Tracked<double> share = marked(350.0, 3).map([](double limit) { return limit / 700.0; });
  share.set_other_mark(5);
  const Tracked<double> scaled = share.times(4.0);
  CHECK_FALSE(log.was_read(5));
  CHECK(scaled == 2.0);
  CHECK(log.was_read(3));
  CHECK(log.was_read(5));
  CHECK_FALSE(log.was_read(4));
}

TEST_CASE("of two limits the loser is noted with the winner, and the winner is not read yet") {
  ReadLog log;
  const ReadLog::Scope noted(&log);
  const Tracked<double> least = smaller_of(marked(5.0, 1), marked(4.0, 2));
  const Tracked<double> most = larger_of(marked(5.0, 3), marked(4.0, 4));
  CHECK(least.mark() == 2);
  CHECK(most.mark() == 3);
  CHECK(log.lost_to(1) == ReadMark{2});
  CHECK(log.lost_to(4) == ReadMark{3});
  CHECK_FALSE(log.lost_to(2).has_value());
  CHECK_FALSE(log.was_read(2));
  CHECK(least + most == 9.0);
  CHECK(log.was_read(2));
  CHECK(log.was_read(3));
  CHECK_FALSE(log.was_read(1));
  CHECK_FALSE(log.was_read(4));
}

TEST_CASE("a tie is the first one's, as with std::min and std::max") {
  CHECK(smaller_of(marked(1.0, 1), marked(1.0, 2)).mark() == 1);
  CHECK(larger_of(marked(1.0, 1), marked(1.0, 2)).mark() == 1);
}

TEST_CASE("reads are noted in the innermost scope, and nowhere without one") {
  const Tracked<double> value = marked(2.0, 1);
  ReadLog outer;
  ReadLog inner;
  {
    const ReadLog::Scope first(&outer);
    {
      const ReadLog::Scope second(&inner);
      CHECK(value == 2.0);
    }
    CHECK(inner.was_read(1));
    {
      const ReadLog::Scope none(nullptr);
      CHECK(value == 2.0);
    }
    CHECK_FALSE(outer.was_read(1));
    CHECK(value == 2.0);
    CHECK(outer.was_read(1));
  }
  CHECK(ReadLog::current() == nullptr);
  CHECK(value == 2.0);
}
