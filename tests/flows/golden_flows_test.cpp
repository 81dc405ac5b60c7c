#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/flows/flow_scene.hpp"

// The golden cases of the design of flows: exact by hand, and the same in SimGrid 3.32 where it has
// the case. Each is held to the picosecond, with all solvers.
namespace shardsim::test {
namespace {

void check_ends(const FlowScene& scene, const std::vector<Time>& expected) {
  for (const FlowOptions& options : every_option()) {
    const std::vector<Time> ends = ends_of(scene, options);
    REQUIRE(ends.size() == expected.size());
    for (std::size_t i = 0; i < ends.size(); ++i) {
      INFO("flow " << i << ", solver " << static_cast<int>(options.solver) << ", fits check "
                   << options.fits_check);
      CHECK(ends[i].picoseconds() == expected[i].picoseconds());
    }
  }
}

// Even all-to-all of four nodes, two on a leaf: flows to the node's neighbour, then far ones.
FlowScene two_leaves(double uplink) {
  FlowScene scene;
  scene.links.assign(8, 1.0);  // Node n sends over 2 n, receives over 2 n + 1.
  scene.links.insert(scene.links.end(), 4, uplink);  // Leaf l: 8 + 2 l up, 9 + 2 l down.
  std::vector<SceneFlow> far;
  for (LinkId from = 0; from < 4; ++from) {
    for (LinkId to = 0; to < 4; ++to) {
      if (from == to) continue;
      if (from / 2 == to / 2) {
        scene.flows.push_back({.size = 1, .links = {2 * from, 2 * to + 1}});
      } else {
        far.push_back(
            {.size = 1, .links = {2 * from, 8 + 2 * (from / 2), 9 + 2 * (to / 2), 2 * to + 1}});
      }
    }
  }
  scene.flows.insert(scene.flows.end(), far.begin(), far.end());
  return scene;
}

}  // namespace

TEST_CASE("flow case 1: the longer of two flows has the link alone at last") {
  check_ends({{1}, {{.size = 1, .links = {0}}, {.size = 2, .links = {0}}}},
             {seconds(2), seconds(3)});
}

TEST_CASE("flow case 2: a flow of weight 3 is three flows") {
  check_ends({{1}, {{.size = 1, .links = {0}, .weight = 3}, {.size = 2, .links = {0}}}},
             {seconds(4), seconds(5)});
  check_ends({{1},
              {{.size = 1, .links = {0}},
               {.size = 1, .links = {0}},
               {.size = 1, .links = {0}},
               {.size = 2, .links = {0}}}},
             {seconds(4), seconds(4), seconds(4), seconds(5)});
}

TEST_CASE("flow case 3: a long flow over three links, one short on each") {
  FlowScene scene{{1, 2, 3},
                  {{.size = 1, .links = {0, 1, 2}},
                   {.size = 0.5, .links = {0}},
                   {.size = 1, .links = {1}},
                   {.size = 1, .links = {2}}}};
  check_ends(scene, {seconds(3, 2), seconds(1), seconds(2, 3), seconds(2, 5)});
  // A faster link delays the flow of the second one.
  scene.links[0] = 2;
  check_ends(scene, {seconds(1), seconds(1, 2), seconds(1), seconds(1, 2)});
}

TEST_CASE("flow case 4: a flow that starts later takes half") {
  check_ends({{1}, {{.size = 2, .links = {0}}, {.size = 0.5, .links = {0}, .start = 1}}},
             {seconds(5, 2), seconds(2)});
}

TEST_CASE("flow case 5: a flow uses nothing until its latency is over") {
  check_ends({{1}, {{.size = 1, .links = {0}, .latency = 0.25}, {.size = 1, .links = {0}}}},
             {seconds(2), seconds(7, 4)});
}

TEST_CASE("flow case 6: what a capped flow leaves is for the others") {
  check_ends({{1},
              {{.size = 1, .links = {0}, .cap = 0.2},
               {.size = 2, .links = {0}},
               {.size = 0.4, .links = {0}}}},
             {seconds(5), seconds(3), seconds(1)});
}

TEST_CASE("flow case 7: a coupled ring goes at the pace of its slowest edge") {
  const std::vector<double> edges = {1, 1, 1, 0.5};
  check_ends({edges, {{.size = 6, .links = {0, 1, 2, 3}}, {.size = 4, .links = {0}}}},
             {seconds(12), seconds(8)});
  check_ends({edges,
              {{.size = 6, .links = {0}},
               {.size = 6, .links = {1}},
               {.size = 6, .links = {2}},
               {.size = 6, .links = {3}},
               {.size = 4, .links = {0}}}},
             {seconds(10), seconds(6), seconds(6), seconds(12), seconds(8)});
  // With a slower edge the coupled ring leaves more to its neighbour.
  check_ends({{1, 1, 1, 0.25}, {{.size = 6, .links = {0, 1, 2, 3}}, {.size = 4, .links = {0}}}},
             {seconds(24), seconds(16, 3)});
}

TEST_CASE("flow case 8: two rings over one uplink") {
  check_ends({{1, 1, 1}, {{.size = 6, .links = {0, 1}}, {.size = 3, .links = {0, 2}}}},
             {seconds(9), seconds(6)});
}

TEST_CASE("flow case 9: an all-to-all over uplinks that are half as fast as their nodes") {
  std::vector<Time> expected(4, seconds(2));
  expected.insert(expected.end(), 8, seconds(4));
  check_ends(two_leaves(1), expected);
  check_ends(two_leaves(2), std::vector<Time>(12, seconds(3)));
}

TEST_CASE("flow case 10: incast of three senders") {
  check_ends(
      {{1}, {{.size = 1, .links = {0}}, {.size = 2, .links = {0}}, {.size = 3, .links = {0}}}},
      {seconds(3), seconds(5), seconds(6)});
}

TEST_CASE("flow case 11: sends in a row beside a long flow") {
  const SceneFlow first{.size = 0.5, .links = {0}, .start = 1};
  SceneFlow second = first;
  second.after = 1;
  SceneFlow third = first;
  third.after = 2;
  check_ends({{1}, {{.size = 6, .links = {0}}, first, second, third}},
             {seconds(15, 2), seconds(2), seconds(4), seconds(6)});
  check_ends({{1, 1}, {{.size = 6, .links = {0}}, {.size = 0.5, .links = {1}, .start = 1}}},
             {seconds(6), seconds(3, 2)});
}

TEST_CASE("flow case 12: hashed paths collide on a spine") {
  const auto scene = [](const std::vector<LinkId>& spines) {
    FlowScene made{{1, 1, 1, 1, 2, 2}, {}};
    for (LinkId card = 0; card < 4; ++card) {
      made.flows.push_back({.size = 1, .links = {card, 4 + spines[card]}});
    }
    return made;
  };
  check_ends(scene({0, 0, 0, 1}), {seconds(3, 2), seconds(3, 2), seconds(3, 2), seconds(1)});
  check_ends(scene({0, 0, 1, 1}), std::vector<Time>(4, seconds(1)));
}

TEST_CASE("flow case 13: a flow that crosses a link twice uses twice its rate") {
  check_ends({{1}, {{.size = 1, .links = {0}, .times = 2}, {.size = 2, .links = {0}}}},
             {seconds(3), seconds(4)});
}

TEST_CASE("flow case 14: what a card holds back leaves its port to others") {
  check_ends({{9, 1}, {{.size = 9, .links = {0}, .cap = 9}, {.size = 2, .links = {0, 1}}}},
             {seconds(9, 8), seconds(2)});
}

TEST_CASE("flow case 15: a link that becomes slower") {
  check_ends({{1}, {{.size = 2, .links = {0}}}, {{0, 1, 0.5}}}, {seconds(3)});
}

TEST_CASE("flow case 16: eight replicas are one flow of weight 8") {
  for (const FlowOptions& options : every_option()) {
    FlowNetwork network(options);
    const LinkId spine = network.add_link("spine", cards(4));
    const LinkId card = network.add_link("card", cards(1));
    FlowDemand replicas = demand_of({.size = 1, .links = {spine, card}});
    replicas.links[0].weight = 8;
    network.start(FlowId{0}, Time(), replicas);
    network.start(FlowId{1}, Time(), demand_of({.size = 2, .links = {spine}}));
    std::vector<Time> ends;
    drive(network, [&](const EndedFlow&) { ends.push_back(network.now()); });
    CHECK(ends == std::vector<Time>{seconds(9, 4), seconds(5, 2)});
  }
  FlowScene scene{{4, 1, 1, 1, 1, 1, 1, 1, 1}, {}};
  for (LinkId card = 1; card <= 8; ++card) scene.flows.push_back({.size = 1, .links = {0, card}});
  scene.flows.push_back({.size = 2, .links = {0}});
  std::vector<Time> expected(8, seconds(9, 4));
  expected.push_back(seconds(5, 2));
  check_ends(scene, expected);
}

TEST_CASE("flow case 17: a chain of links, each with another bottleneck") {
  check_ends({{1, 2, 4},
              {{.size = 1, .links = {0}},
               {.size = 1, .links = {0, 1}},
               {.size = 3, .links = {1, 2}},
               {.size = 4, .links = {2}}}},
             {seconds(2), seconds(2), seconds(2), seconds(8, 5)});
}

TEST_CASE("flow case 18: thirds that become halves") {
  check_ends({{1, 1},
              {{.size = 1, .links = {0}},
               {.size = 1, .links = {0, 1}},
               {.size = 2, .links = {1}},
               {.size = 1, .links = {1}}}},
             {seconds(3, 2), seconds(3), seconds(4), seconds(3)});
}

TEST_CASE("flow case 19: a tenant takes a quarter") {
  check_ends({{1}, {{.size = 3, .links = {0}}}, {{0, 0, 0.75}}}, {seconds(4)});
}

TEST_CASE("flow case 20: ends and a start of one instant take one solve") {
  check_ends({{1},
              {{.size = 1, .links = {0}},
               {.size = 1, .links = {0}},
               {.size = 1, .links = {0}, .start = 2}}},
             {seconds(2), seconds(2), seconds(3)});
  FlowNetwork network;
  network.add_link("link", cards(1));
  const SceneFlow flow{.size = 1, .links = {0}};
  network.start(FlowId{0}, Time(), demand_of(flow));
  network.start(FlowId{1}, Time(), demand_of(flow));
  REQUIRE(network.next() == seconds(2));
  CHECK(network.num_solves() == 1);
  std::vector<EndedFlow> ended;
  network.advance(seconds(2), ended);
  CHECK(ended.size() == 2);
  network.start(FlowId{2}, seconds(2), demand_of(flow));
  network.start(FlowId{3}, seconds(2), demand_of(flow));
  CHECK(network.next() == seconds(4));
  CHECK(network.num_solves() == 2);
}

TEST_CASE("flow case 21: a link that is down for a while") {
  check_ends({{1}, {{.size = 2, .links = {0}}}, {{0, 1, 0}, {0, 3, 1}}}, {seconds(4)});
}

}  // namespace shardsim::test
