#include "strategies/model/expert_counts.hpp"

#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include <catch2/catch.hpp>
#include <rapidcheck.h>

#include "tests/property/check_property.hpp"
#include "tests/strategies/expert_layer_fixture.hpp"

// How many tokens go to each expert, as far as no value decides it.
namespace shardsim::test {

TEST_CASE("declared routing is what it declares: distinct experts, shares to the slot") {
  for (const RoutingKind routing :
       {RoutingKind::uniform, RoutingKind::skewed, RoutingKind::listed}) {
    for (const std::int64_t s : {1, 2, 7, 12, 31}) {
      for (const std::int64_t k : {1, 2, 4}) {
        MoeOptions moe = some_experts(routing, k);
        moe.skew = 1.25;
        moe.popularity = {{0, 3, 0, 1, 4}};
        const DeclaredRouting declared(moe, s);
        for (const int layer : {0, 3, 7}) {
          std::vector<std::int64_t> counts(5, 0);
          for (std::int64_t position = 0; position < s; ++position) {
            std::set<int> experts;
            for (std::int64_t slot = 0; slot < k; ++slot) {
              const int expert = declared.expert_of(layer, position, slot);
              ++counts.at(static_cast<std::size_t>(expert));
              experts.insert(expert);
            }
            CHECK(experts.size() == static_cast<std::size_t>(k));
          }
          const int moved = routing == RoutingKind::listed ? 0 : layer % 5;
          for (std::size_t i = 0; i < 5; ++i) {
            CHECK(counts[(i + static_cast<std::size_t>(moved)) % 5] == declared.shares(layer)[i]);
          }
        }
      }
    }
  }
}

TEST_CASE("slots are shared out by largest remainder, nobody gets more than there are tokens") {
  using Shares = std::vector<std::int64_t>;
  CHECK(apportion(10, {1, 1, 1}, 10) == Shares{4, 3, 3});
  CHECK(apportion(10, {3, 1, 1}, 10) == Shares{6, 2, 2});
  CHECK(apportion(10, {100, 1, 1}, 4) == Shares{4, 3, 3});
  CHECK(apportion(6, {1, 0, 0}, 3) == Shares{3, 2, 1});  // Nobody else wants any: shared evenly.
  CHECK(apportion(0, {1, 2}, 3) == Shares{0, 0});
  CHECK(apportion(7, {0, 2, 5}, 7) == Shares{0, 2, 5});
}

TEST_CASE("what members of a group send is what the others get") {
  for (const RoutingKind routing : {RoutingKind::learned, RoutingKind::skewed}) {
    MoeOptions moe = some_experts(routing, 2);
    moe.num_experts = 6;
    moe.skew = 1.0;
    const ExpertCountsPlanner planner(moe, 16);
    const std::int64_t rows = 8;  // One sample, two shares of it, two shards of these, of two.
    std::vector<std::shared_ptr<const ExpertCounts>> members;
    for (int rank = 0; rank < 3; ++rank) {
      members.push_back(planner.counts(
          2, {.size = 3, .rank = rank, .first = 3, .context_parts = 2, .token_shards = 2}, rows));
      CHECK(std::accumulate(members.back()->sent.begin(), members.back()->sent.end(), 0) == 16);
    }
    for (std::size_t to = 0; to < 3; ++to) {
      for (std::size_t from = 0; from < 3; ++from) {
        for (std::size_t i = 0; i < 2; ++i) {
          CHECK(members[to]->received[from * 2 + i] == members[from]->sent[to * 2 + i]);
        }
      }
    }
  }
}

// 10 slots on 6 experts leave 4 over, 2 in each 3 experts: they move on with member and layer.
TEST_CASE("a plan of learned routing favours no expert") {
  MoeOptions moe = some_experts(RoutingKind::learned, 2);
  moe.num_experts = 6;
  using Rows = std::vector<std::int64_t>;
  const auto sent = [&](int layer, const ExpertGroup& group, std::int64_t rows = 5) {
    return ExpertCountsPlanner(moe, rows).counts(layer, group, rows)->sent;
  };
  CHECK(sent(0, {3, 0}) == Rows{2, 1, 2, 2, 1, 2});
  CHECK(sent(0, {3, 1}) == Rows{1, 2, 2, 1, 2, 2});
  CHECK(sent(0, {3, 2}) == Rows{2, 2, 1, 2, 2, 1});
  CHECK(sent(1, {3, 0}) == sent(0, {3, 1}));
  CHECK(sent(6, {3, 0}) == sent(0, {3, 0}));
  // Groups of one, and the second of two: the number among all ranks counts.
  CHECK(sent(0, {.size = 1, .first = 1}) == sent(0, {3, 1}));
  CHECK(sent(0, {.size = 3, .rank = 1, .first = 3}) == sent(0, {3, 1}));
  CHECK(sent(0, {.size = 3, .first = 4}) == sent(0, {3, 1}));
  // Members with one slice are two apart.
  CHECK(sent(0, {.size = 2, .slices = 2, .slice = 1}) == sent(0, {3, 1}));
  CHECK(sent(0, {.size = 2, .rank = 1, .slices = 2}) == sent(0, {3, 2}));
  CHECK(sent(3, {3, 2}, 3) == Rows(6, 1));
}

TEST_CASE("members whose shares are alike get as many tokens as each other, wherever they stand") {
  check_property(200, [] {
    MoeOptions moe = some_experts(RoutingKind::learned, *rc::gen::inRange(1, 9));
    const std::int64_t each = *rc::gen::inRange(1, 25);
    const std::int64_t members = *rc::gen::inRange(1, 17);
    moe.num_experts = static_cast<int>(each * members);
    const std::int64_t rows = *rc::gen::inRange(1, 5000);
    const EvenShares shares = even_shares(moe, rows);
    bool alike = true;
    std::int64_t first = -1;
    for (std::int64_t moved_on = 0; moved_on < shares.period; ++moved_on) {
      std::int64_t all = 0;
      for (std::int64_t member = 0; member < members; ++member) {
        std::int64_t own = 0;
        for (std::int64_t i = 0; i < each; ++i) {
          const std::int64_t slots = shares.of(member * each + i, moved_on);
          RC_ASSERT(slots == shares.each || slots == shares.each + 1);
          own += slots;
        }
        if (first < 0) first = own;
        alike = alike && own == first;
        all += own;
      }
      RC_ASSERT(all == rows * moe.experts_per_token);
    }
    // Shares that are no multiple of the period may be alike by chance: of one expert a member,
    // say.
    if (shares.are_alike(moe.num_experts, members)) RC_ASSERT(alike);
    if (shares.extra > 0 && each == 1) RC_ASSERT(!shares.are_alike(moe.num_experts, members));
  });
}

}  // namespace shardsim::test
