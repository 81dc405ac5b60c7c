#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/random.hpp"

#include "strategies/model/dispatch_rows.hpp"
#include "strategies/model/expert_counts.hpp"
#include "strategies/model/expert_reach.hpp"
#include "strategies/model/expert_rows.hpp"
#include "strategies/model/router.hpp"

#include "tests/strategies/expert_layer_fixture.hpp"

// K8: copies of tokens that go once to each node, and once to each rank of it.
namespace shardsim::test {
namespace {

MoeOptions moe_with(std::int64_t experts, std::int64_t k, std::int64_t groups = 1,
                    std::int64_t chosen_groups = 1) {
  MoeOptions moe;
  moe.num_experts = experts;
  moe.experts_per_token = k;
  moe.router.num_groups = groups;
  moe.router.group_topk = chosen_groups;
  return moe;
}

// Calls visit(members) for every choice of `count` numbers below `of`.
template <class Visitor>
void for_each_choice(std::int64_t of, std::int64_t count, std::vector<std::int64_t>& taken,
                     Visitor&& visit) {
  if (std::ssize(taken) == count) return visit(taken);
  for (std::int64_t next = taken.empty() ? 0 : taken.back() + 1; next < of; ++next) {
    taken.push_back(next);
    for_each_choice(of, count, taken, visit);
    taken.pop_back();
  }
}

// Over all choices of groups and of experts in them: the mean share of parts that are reached.
double counted_chance(const MoeOptions& moe, std::int64_t parts) {
  const std::int64_t of_group = moe.num_experts / moe.router.num_groups;
  const std::int64_t of_part = moe.num_experts / parts;
  double reached = 0.0;
  double choices = 0.0;
  std::vector<std::int64_t> groups;
  for_each_choice(moe.router.num_groups, moe.router.group_topk, groups, [&](const auto& chosen) {
    std::vector<std::int64_t> places;
    for_each_choice(
        of_group * moe.router.group_topk, moe.experts_per_token, places, [&](const auto& slots) {
          std::set<std::int64_t> hit;
          for (const std::int64_t slot : slots) {
            const std::int64_t group = chosen[static_cast<std::size_t>(slot / of_group)];
            hit.insert((group * of_group + slot % of_group) / of_part);
          }
          reached += static_cast<double>(hit.size());
          choices += 1.0;
        });
  });
  return reached / choices / static_cast<double>(parts);
}

double binomial(std::int64_t n, std::int64_t k) {
  double product = 1.0;
  for (std::int64_t i = 0; i < k; ++i) {
    product *= static_cast<double>(n - i) / static_cast<double>(i + 1);
  }
  return product;
}

// Random choices of k different experts, [tokens, k].
Tensor random_choice(LocalRuntime& runtime, std::int64_t tokens, std::int64_t experts,
                     std::int64_t k) {
  const RandomStream random(7, "choice");
  Tensor chosen = runtime.allocate(MemoryCategory::activations, {tokens, k}, DType::int32);
  std::vector<int> all(static_cast<std::size_t>(experts));
  std::iota(all.begin(), all.end(), 0);
  std::uint64_t drawn = 0;
  for (std::int64_t token = 0; token < tokens; ++token) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::swap(all[i], all[i + random.below(drawn++, all.size() - i)]);
    }
    for (std::int64_t slot = 0; slot < k; ++slot) {
      chosen.set(token * k + slot, all[static_cast<std::size_t>(slot)]);
    }
  }
  return chosen;
}

using TokenCopies = std::set<std::pair<std::int64_t, std::int64_t>>;  // Token and member.

TokenCopies token_copies_of(const Tensor& chosen, const HopExperts& hop) {
  const std::int64_t k = chosen.shape()[1];
  TokenCopies copies;
  for (std::int64_t pair = 0; pair < chosen.numel(); ++pair) {
    const std::int64_t expert = static_cast<std::int64_t>(chosen.get(pair)) - hop.first;
    if (expert < 0 || expert >= hop.each * hop.members) continue;
    copies.insert({pair / k, expert / hop.each});
  }
  return copies;
}

}  // namespace

// Rounding of at most a few hundred products and sums of numbers up to 1: 1e-13.
TEST_CASE("K8: the chance that a token reaches a part is the mean over all choices") {
  struct Case {
    MoeOptions moe;
    int parts;
  };
  const Case cases[] = {
      {moe_with(6, 2), 3},         {moe_with(6, 3), 2},        {moe_with(8, 4), 4},
      {moe_with(8, 8), 4},         {moe_with(12, 2, 4, 2), 4}, {moe_with(12, 4, 4, 2), 2},
      {moe_with(12, 2, 2, 1), 4},  {moe_with(12, 4, 6, 2), 3}, {moe_with(12, 2, 3, 2), 2},
      {moe_with(12, 3, 4, 3), 12}, {moe_with(8, 2), 1}};
  for (const Case& of : cases) {
    CAPTURE(of.moe.num_experts, of.moe.experts_per_token, of.moe.router.num_groups,
            of.moe.router.group_topk, of.parts);
    CHECK(std::fabs(chance_to_reach(of.moe, of.parts) - counted_chance(of.moe, of.parts)) < 1e-13);
  }
}

// With a group for each node, g of n groups are drawn, and then k of their experts.
TEST_CASE("K8: DeepSeek-V3's tokens reach as many nodes as the formula says") {
  constexpr std::int64_t kExperts = 256;
  const double free = 8.0 * (1.0 - binomial(kExperts - 32, 8) / binomial(kExperts, 8));
  CHECK(std::fabs(8.0 * chance_to_reach(moe_with(kExperts, 8), 8) - free) < 1e-12);
  const double limited = 4.0 * (1.0 - binomial(3 * 32, 8) / binomial(4 * 32, 8));
  CHECK(std::fabs(8.0 * chance_to_reach(moe_with(kExperts, 8, 8, 4), 8) - limited) < 1e-12);
  CHECK(free > 5.2);
  CHECK(limited < 3.7);
}

TEST_CASE("a token goes once to each member that has any of its experts, and to no other") {
  LocalRuntime runtime;
  for (const std::int64_t k : {1, 2, 3, 6}) {
    const Tensor chosen = random_choice(runtime, 20, 12, k);
    for (const HopExperts hop : {HopExperts{.first = 0, .each = 4, .members = 3},
                                 HopExperts{.first = 4, .each = 2, .members = 2},
                                 HopExperts{.first = 11, .each = 1, .members = 1}}) {
      const TokenCopies expected = token_copies_of(chosen, hop);
      const Tensor order = order_copies(runtime, chosen, hop, std::ssize(expected));
      TokenCopies copies;
      std::int64_t last = -1;
      for (std::int64_t row = 0; row < order.numel(); ++row) {
        const auto copy = static_cast<std::int64_t>(order.get(row));
        const std::int64_t member = copy % hop.members;
        CHECK(member >= last);  // Member by member.
        last = member;
        CHECK(copies.insert({copy / hop.members, member}).second);
      }
      CHECK(copies == expected);
    }
  }
}

// TokenCopies that carry their token's number come back to it, once for each member.
TEST_CASE("copies of a token add up to it as often as it was sent") {
  LocalRuntime runtime;
  const Tensor chosen = random_choice(runtime, 9, 8, 3);
  const HopExperts hop{.first = 0, .each = 2, .members = 4};
  const TokenCopies expected = token_copies_of(chosen, hop);
  Tensor x = runtime.allocate(MemoryCategory::activations, {9, 2}, DType::fp64);
  for (std::int64_t i = 0; i < x.numel(); ++i) x.set(i, static_cast<double>(i + 1));
  const Tensor order = order_copies(runtime, chosen, hop, std::ssize(expected));
  const Tensor rows = permute_tokens(runtime, x, order, hop.members);
  const Tensor back = sum_rows(runtime, rows, order, hop.members, x.shape());
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    std::int64_t times = 0;
    for (std::int64_t member = 0; member < 4; ++member) times += expected.count({i / 2, member});
    CHECK(back.get(i) == static_cast<double>(times) * x.get(i));
  }
}

TEST_CASE("what a node is told is what the order of copies and the choice say") {
  LocalRuntime runtime;
  const Tensor chosen = random_choice(runtime, 30, 12, 3);
  const DispatchGrid grid{.nodes = 3, .ranks = 2, .experts = 2};
  const Tensor told = count_for_nodes(runtime, chosen, grid);
  REQUIRE(told.shape() == Shape{3, 1 + 2 + 4});
  for (std::int64_t node = 0; node < 3; ++node) {
    const auto count = [&](const HopExperts& hop) {
      return static_cast<double>(token_copies_of(chosen, hop).size());
    };
    CHECK(told.get(node * 7) == count({.first = node * 4, .each = 4, .members = 1}));
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      CHECK(told.get(node * 7 + 1 + rank) ==
            count({.first = node * 4 + rank * 2, .each = 2, .members = 1}));
    }
    for (std::int64_t expert = 0; expert < 4; ++expert) {
      CHECK(told.get(node * 7 + 3 + expert) ==
            count({.first = node * 4 + expert, .each = 1, .members = 1}));
    }
  }
  // From all nodes, for the ranks of one: here the same rank has told itself thrice.
  const Tensor passed = count_for_ranks(runtime, told, grid);
  REQUIRE(passed.shape() == Shape{2, 1 + 2});
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    for (std::int64_t i = 0; i < 3; ++i) {
      const std::int64_t column = i == 0 ? 1 + rank : 3 + rank * 2 + i - 1;
      double sum = 0.0;
      for (std::int64_t node = 0; node < 3; ++node) sum += told.get(node * 7 + column);
      CHECK(passed.get(rank * 3 + i) == sum);
    }
  }
}

TEST_CASE("K8: with a group of experts for each node, no token goes to more nodes than groups") {
  LocalRuntime runtime;
  const RandomStream random(10, "router");
  std::uint64_t drawn = 0;
  Tensor x = runtime.allocate(MemoryCategory::activations, {200, 6}, DType::fp64);
  Tensor weight = runtime.allocate(MemoryCategory::params, {16, 6}, DType::fp64);
  for (const Tensor& tensor : {x, weight}) {
    for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.set(i, random.bell(drawn++));
  }
  RouterOptions options;
  options.num_groups = 4;
  options.group_topk = 2;
  const RouterOutput routed = router_forward(runtime, x, {weight, {}, {}}, {options, 4}, {});
  std::vector<int> nodes(200, 0);
  for (const auto& [token, node] : token_copies_of(routed.chosen, {.each = 4, .members = 4})) {
    ++nodes[static_cast<std::size_t>(token)];
  }
  CHECK(*std::max_element(nodes.begin(), nodes.end()) == 2);
}

TEST_CASE("copies that members of a group plan to send on each hop are those that others get") {
  for (const RoutingKind routing :
       {RoutingKind::learned, RoutingKind::uniform, RoutingKind::skewed}) {
    for (const auto& [nodes, ranks] : {std::pair{3, 2}, {2, 3}, {6, 1}, {1, 6}}) {
      MoeOptions moe = moe_with(12, 3);
      moe.routing = routing;
      const ExpertCountsPlanner planner(moe, 32);
      std::vector<std::shared_ptr<const ExpertCounts>> members;
      for (int rank = 0; rank < 6; ++rank) {
        members.push_back(planner.counts(3,
                                         {.size = 6,
                                          .rank = rank,
                                          .first = 6,
                                          .context_parts = 2,
                                          .token_shards = 2,
                                          .nodes = nodes},
                                         8));
      }
      CAPTURE(static_cast<int>(routing), nodes, ranks);
      const std::size_t hops = (nodes > 1 ? 1U : 0U) + (ranks > 1 ? 1U : 0U);
      std::int64_t received = 0;
      for (int rank = 0; rank < 6; ++rank) {
        const ExpertCounts& here = *members[static_cast<std::size_t>(rank)];
        REQUIRE(here.hops.size() == hops);
        REQUIRE(here.received.size() == 2);
        received += here.received[0] + here.received[1];
        std::size_t hop = 0;
        for (int other = 0; nodes > 1 && other < nodes; ++other) {
          const ExpertCounts& from =
              *members[static_cast<std::size_t>(other * ranks + rank % ranks)];
          CHECK(here.hops[hop].received[static_cast<std::size_t>(other)] ==
                from.hops[hop].sent[static_cast<std::size_t>(rank / ranks)]);
        }
        if (nodes > 1) ++hop;
        for (int other = 0; ranks > 1 && other < ranks; ++other) {
          const ExpertCounts& from =
              *members[static_cast<std::size_t>(rank / ranks * ranks + other)];
          CHECK(here.hops[hop].received[static_cast<std::size_t>(other)] ==
                from.hops[hop].sent[static_cast<std::size_t>(rank % ranks)]);
        }
      }
      CHECK(received == 6 * 8 * 3);
    }
  }
}

}  // namespace shardsim::test
