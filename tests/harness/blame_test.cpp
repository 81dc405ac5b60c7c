#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/harness/check.hpp"

// The rank that has erred stands first, alone, whoever waits for whom.
namespace shardsim {
namespace {

using RankList = std::vector<int>;

Diagnosis blamed_by(const Program& program, int ranks) {
  const CheckReport report = check(program, {.ranks = {ranks}});
  REQUIRE(report.failure);
  return *report.failure;
}

void sum(RankContext& context) {
  context.world().all_reduce(context.tensor(4), ReduceOp::sum).wait();
}

bool has_text(const Diagnosis& diagnosis, const std::string& text) {
  return diagnosis.to_text().find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("a rank that makes a call too many stands before those that have ended without it") {
  const Diagnosis found = blamed_by(
      [](RankContext& context) {
        sum(context);
        if (context.rank() == 2) sum(context);
      },
      4);
  CHECK(found.code == "COLL_MISSING");
  CHECK(found.sides.front().ranks == RankList{2});
}

TEST_CASE("a rank that leaves a call out, and waits elsewhere for those it holds up, is named") {
  const auto program = [](RankContext& context) {
    const auto half = context.world().split(context.rank() / 2, context.rank(), "half");
    if (context.rank() != 3) sum(context);
    half->barrier().wait();
    sum(context);
  };
  const Diagnosis found = blamed_by(program, 4);
  CHECK(found.code == "COLL_MISSING");
  CHECK(found.sides.front().ranks == RankList{3});
}

TEST_CASE("who is to blame is found without watching buffers, too") {
  const CheckReport report = check(
      [](RankContext& context) {
        const auto half = context.world().split(context.rank() / 2, context.rank(), "half");
        if (context.rank() != 3) sum(context);
        half->barrier().wait();
        sum(context);
      },
      {.ranks = {4}, .watch_buffers = false});
  REQUIRE(report.failure);
  CHECK(report.failure->sides.front().ranks == RankList{3});
}

TEST_CASE("a rank that uses the wrong one of its groups is named though two ranks disagree") {
  const Diagnosis found = blamed_by(
      [](RankContext& context) {
        const auto pair = context.world().split(context.rank() / 2, context.rank(), "pair");
        Communicator& group = context.rank() == 1 ? context.world() : *pair;
        group.all_reduce(context.tensor(4), ReduceOp::sum).wait();
      },
      4);
  CHECK(found.code == "COLL_GROUP");
  CHECK(found.sides.front().ranks == RankList{1});
}

TEST_CASE("a rank that sends to the wrong peer is named, and not who waits for the message") {
  const Diagnosis found = blamed_by(
      [](RankContext& context) {
        const Tensor buffer = context.tensor(4);
        if (context.rank() == 1) context.world().send(buffer, 2).wait();
        if (context.rank() == 3) context.world().recv(buffer, 1).wait();
        context.world().barrier().wait();
      },
      4);
  CHECK(found.code == "P2P_UNMATCHED");
  CHECK(found.sides.front().ranks == RankList{1});
  CHECK(has_text(found, "with rank 3 as peer the run ends well"));
}

TEST_CASE("a member that does not call split is named by those that wait for it") {
  const Diagnosis found = blamed_by(
      [](RankContext& context) {
        if (context.rank() != 1) {
          context.world().split(0, context.rank(), "part")->barrier().wait();
        }
        const Tensor buffer = context.tensor(4);
        if (context.rank() == 0) context.world().send(buffer, 1).wait();
        if (context.rank() == 1) context.world().recv(buffer, 0).wait();
      },
      4);
  CHECK(found.code == "GROUP_CREATE");
  CHECK(found.sides.front().ranks == RankList{1});
}

TEST_CASE("of two members that disagree on the number of calls both are named") {
  const Diagnosis found = blamed_by(
      [](RankContext& context) {
        sum(context);
        if (context.rank() == 1) sum(context);
      },
      2);
  CHECK(found.code == "COLL_MISSING");
  REQUIRE(found.sides.size() == 2);
  CHECK(has_text(found, "of two members either may be wrong"));
}

TEST_CASE("a cycle lists all ranks that wait in a link") {
  const Diagnosis found = blamed_by(
      [](RankContext& context) {
        const Tensor buffer = context.tensor(4);
        if (context.rank() == 8) context.world().recv(buffer, 0).wait();
        context.world().barrier().wait();
        if (context.rank() == 0) context.world().send(buffer, 8).wait();
      },
      9);
  CHECK(found.code == "DEADLOCK");
  CHECK(has_text(found, "ranks 0-7 wait in barrier"));
}

TEST_CASE("a batch is advised where all wait for messages, and not where one waits for a member") {
  const Diagnosis mixed = blamed_by(
      [](RankContext& context) {
        const Tensor buffer = context.tensor(4);
        if (context.rank() == 1) context.world().recv(buffer, 0).wait();
        context.world().barrier().wait();
        if (context.rank() == 0) context.world().send(buffer, 1).wait();
      },
      2);
  CHECK(mixed.code == "DEADLOCK");
  CHECK(mixed.hint.find("batch") == std::string::npos);
  CHECK(mixed.hint.find("crosses a collective") != std::string::npos);
  const Diagnosis messages = blamed_by(
      [](RankContext& context) {
        const Tensor buffer = context.tensor(4);
        context.world().recv(buffer, 1 - context.rank()).wait();
        context.world().send(buffer, 1 - context.rank()).wait();
      },
      2);
  CHECK(messages.code == "DEADLOCK");
  CHECK(messages.hint.find("batch") != std::string::npos);
  // Receives that come first wait in any network.
  CHECK(messages.hint.find("buffers that many") == std::string::npos);
}

// Without the second split the rank has a group of its own, so that no mended run ends well.
TEST_CASE("in a cycle the rank that is alone in its call stands first") {
  const Diagnosis found = blamed_by(
      [](RankContext& context) {
        Communicator& world = context.world();
        auto group = world.split(0, context.rank(), "stage");
        if (context.rank() == 2) group = world.split(0, context.rank(), "stage");
        group->all_reduce(context.tensor(4), ReduceOp::sum).wait();
      },
      5);
  CHECK(found.code == "DEADLOCK");
  CHECK(found.sides.front().ranks == RankList{2});
  REQUIRE(found.cycle.size() == 2);
  CHECK(found.cycle.front().find("rank 2 waits in split") == 0);
}

}  // namespace shardsim
