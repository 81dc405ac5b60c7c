#include <algorithm>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>
#include <rapidcheck.h>

#include "backends/collective_shape.hpp"
#include "backends/group_traffic.hpp"

#include "tests/property/check_property.hpp"

// The traffic of a group's members, counted by runs of those that have moved the same.
namespace shardsim::test {
namespace {

bool same(const Moved& one, const Moved& other) {
  return one.payload.sent == other.payload.sent && one.payload.received == other.payload.received &&
         one.payload.to_next == other.payload.to_next &&
         one.payload.from_previous == other.payload.from_previous &&
         one.payload.messages == other.payload.messages && one.padding_sent == other.padding_sent;
}

CollectiveShape drawn_shape() {
  const CollectiveRow* const rows[] = {&collective::kAllReduce, &collective::kAllGather,
                                       &collective::kReduceScatter, &collective::kBarrier};
  CollectiveShape shape;
  shape.row = rows[*rc::gen::inRange(0, 4)];
  shape.size = *rc::gen::inRange(1, 14);
  shape.width = 2;
  if (shape.row->in_place()) {
    shape.count = *rc::gen::inRange(0, 60);
  } else {
    shape.count = shape.size * *rc::gen::inRange(0, 6);
  }
  shape.padding = *rc::gen::inRange<std::int64_t>(0, shape.count + 1);
  return shape;
}

}  // namespace

TEST_CASE("property: members between two changes of a collective's chunks move the same") {
  int long_runs = 0;
  check_property(2000, [&] {
    const CollectiveShape shape = drawn_shape();
    for (int member = 0; member < shape.size;) {
      const int end = moves_evenly_until(shape, Algorithm::ring, member);
      RC_ASSERT(end > member);
      RC_ASSERT(end <= shape.size);
      const Moved first = moved_by(shape, Algorithm::ring, nullptr, member);
      for (int other = member + 1; other < end; ++other) {
        RC_ASSERT(same(first, moved_by(shape, Algorithm::ring, nullptr, other)));
      }
      if (end - member > 2) ++long_runs;
      member = end;
    }
  });
  CHECK(long_runs >= 500);
}

TEST_CASE("property: counters by runs are those of each member") {
  check_property(500, [] {
    const int size = *rc::gen::inRange(1, 12);
    MemberCounters counters(size);
    std::vector<std::int64_t> expected(static_cast<std::size_t>(size));
    for (int i = 0; i < 8; ++i) {
      const int first = *rc::gen::inRange(0, size);
      const int end = *rc::gen::inRange(first + 1, size + 1);
      const std::int64_t bytes = *rc::gen::inRange(0, 100);
      counters.add(first, end, [&](TrafficCounters& own) { own.payload_sent += bytes; });
      for (int member = first; member < end; ++member) {
        expected[static_cast<std::size_t>(member)] += bytes;
      }
    }
    std::int64_t sum = 0;
    const std::vector<TrafficCounters> each = counters.each();
    RC_ASSERT(each.size() == expected.size());
    for (std::size_t member = 0; member < expected.size(); ++member) {
      RC_ASSERT(each[member].payload_sent == expected[member]);
      sum += expected[member];
    }
    RC_ASSERT(counters.sum().payload_sent == sum);
  });
}

TEST_CASE("a group has links where a member has sent payload, and not for scalars") {
  MemberCounters counters(4);
  counters.add(0, 4, [](TrafficCounters& own) { own.messages = own.scalar_messages = 3; });
  CHECK(counters.has_no_links());
  counters.add(2, 3, [](TrafficCounters& own) { ++own.messages; });
  CHECK_FALSE(counters.has_no_links());
}

}  // namespace shardsim::test
