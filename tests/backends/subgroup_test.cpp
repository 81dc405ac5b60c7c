#include <map>
#include <string>
#include <vector>

#include "backends/rank_span.hpp"
#include "backends/wrapping_communicator.hpp"

#include "tests/backends/fiber_fixture.hpp"
#include "tests/property/check_property.hpp"

// Groups whose members are told, instead of found out by colors.
namespace shardsim::test {
namespace {

// A grid of up to 4 axes with one stride after the other, in any order, and some of its ranks.
RankSpan any_span() {
  constexpr int kAxes = 4;
  std::vector<RankSpan::Axis> axes;
  int stride = *rc::gen::inRange(1, 4);
  for (int i = 0; i < kAxes; ++i) {
    const int size = *rc::gen::inRange(1, 5);
    axes.push_back({.size = size, .stride = size == 1 ? 0 : stride});
    stride *= size * *rc::gen::inRange(1, 3);
  }
  RankSpan span;
  span.base = *rc::gen::inRange(0, 20);
  int total = 1;
  for (int i = 0; i < kAxes; ++i) {
    const auto taken = static_cast<std::size_t>(*rc::gen::inRange(0, kAxes - i));
    span.axes.at(static_cast<std::size_t>(i)) = axes[taken];
    total *= axes[taken].size;
    axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(taken));
  }
  span.first = *rc::gen::inRange(0, total);
  span.step = *rc::gen::inRange(1, total + 1);
  span.size = (total - 1 - span.first) / span.step + 1;
  return span;
}

}  // namespace

TEST_CASE("a span finds each of its ranks, and no other") {
  check_property(300, [] {
    const RankSpan span = any_span();
    std::map<int, int> members;
    for (int member = 0; member < span.size; ++member) members[span.rank(member)] = member;
    RC_ASSERT(static_cast<int>(members.size()) == span.size);
    const int last = members.rbegin()->first + 30;
    for (int rank = 0; rank < last; ++rank) {
      const auto found = members.find(rank);
      RC_ASSERT(span.member_of(rank) == (found == members.end() ? -1 : found->second));
    }
  });
}

TEST_CASE("a part of a span has its members from there on") {
  const RankSpan grid{.base = 3, .axes = {{{2, 10}, {3, 100}}}, .size = 6};
  const RankSpan odd = grid.part(1, 2, 3);
  CHECK(odd.rank(0) == 13);
  CHECK(odd.rank(2) == 213);
  const RankSpan back = odd.part(2, -2, 2);  // The last, then the first.
  CHECK(back.rank(0) == 213);
  CHECK(back.rank(1) == 13);
  CHECK(back.member_of(13) == 1);
  CHECK(back.member_of(113) == -1);
}

TEST_CASE("a subgroup is what a split makes of the same members") {
  run_ranks(6, [](Runtime&, Communicator& world) {
    const int rank = world.rank();
    // Ranks 4, 2 and 0 in that order, 1 and 3; rank 5 joins none.
    const RankSpan mine = rank == 5       ? RankSpan::none()
                          : rank % 2 == 0 ? RankSpan::line(6).part(4, -2, 3)
                                          : RankSpan::line(6).part(1, 2, 2);
    const auto group = world.subgroup(mine, "part");
    REQUIRE((group == nullptr) == (rank == 5));
    if (group == nullptr) return;
    CHECK(group->size() == (rank % 2 == 0 ? 3 : 2));
    CHECK(group->rank() == (rank % 2 == 0 ? 2 - rank / 2 : rank / 2));
    CHECK(group->name() == "part");
  });
}

TEST_CASE("a rank that names a group without itself is refused") {
  const Diagnosis diagnosis = diagnosis_of(4, [](Runtime&, Communicator& world) {
    const auto group = world.subgroup(RankSpan::line(2), "half");
  });
  CHECK(diagnosis.code == "ARG_RANGE");
  CHECK(diagnosis.summary.find("the group of 2 ranks from 0 on is without the caller") !=
        std::string::npos);
  CHECK(diagnosis.sides.at(0).ranks == std::vector<int>{2});
}

}  // namespace shardsim::test
