#include "sim/kernel/ring_queue.hpp"

#include <cstdint>
#include <deque>
#include <utility>

#include <catch2/catch.hpp>

namespace shardsim::test {
namespace {

// Counts how often one is moved; 0 when there is nothing in it.
struct Counted {
  Counted() = default;
  explicit Counted(int n) : number(n) {}
  Counted(Counted&& other) noexcept : number(std::exchange(other.number, 0)) { ++moves; }
  Counted& operator=(Counted&& other) noexcept {
    number = std::exchange(other.number, 0);
    ++moves;
    return *this;
  }
  ~Counted() = default;

  int number = 0;
  static inline std::int64_t moves = 0;
};

}  // namespace

TEST_CASE("a ring queue gives back what was pushed, oldest first, also when it grows full circle") {
  RingQueue<Counted> ring;
  std::deque<int> expected;
  int number = 0;
  // Lengths that go up and down, from every first place.
  for (int round = 1; round <= 40; ++round) {
    for (int i = 0; i < round % 7 + 2; ++i) {
      ring.push(Counted(++number));
      expected.push_back(number);
    }
    for (int i = 0; i < round % 5 + 1 && !expected.empty(); ++i) {
      CHECK(ring.front().number == expected.front());
      for (std::size_t k = 0; k < expected.size(); ++k) CHECK(ring[k].number == expected[k]);
      CHECK(ring.pop().number == expected.front());
      expected.pop_front();
      CHECK(ring.size() == expected.size());
    }
  }
  CHECK(expected.size() > 16);  // It has grown on the way.
  while (!expected.empty()) {
    CHECK(ring.pop().number == expected.front());
    expected.pop_front();
  }
  CHECK(ring.empty());
}

// Looped BFS has almost as many sends under way as there are microbatches: moving them all up at
// every send made its step quadratic.
TEST_CASE("an entry of a ring queue costs the same however many there are") {
  for (const int length : {1, 10'000}) {
    RingQueue<Counted> ring;
    for (int number = 1; number <= length; ++number) ring.push(Counted(number));
    constexpr int kEntries = 100;
    const std::int64_t before = Counted::moves;
    for (int i = 0; i < kEntries; ++i) {
      (void)ring.pop();
      ring.push(Counted(1));
    }
    // Out of its place, which is emptied; into one.
    CHECK(Counted::moves - before <= 3 * kEntries);
  }
}

}  // namespace shardsim::test
