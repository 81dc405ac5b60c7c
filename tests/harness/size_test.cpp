#include <algorithm>
#include <string>

#include <catch2/catch.hpp>

#include "sim/harness/check.hpp"

// Reports of large runs. (That they come within two seconds is for tests/bench: stalls_bench.)
namespace shardsim {
namespace {

constexpr int kMany = 1024;
constexpr int kSide = 32;  // The side of a square of so many.

std::int64_t lines_of(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

CheckReport report_of(const Program& program) { return check(program, {.ranks = {kMany}}); }

}  // namespace

TEST_CASE("a circle of 1,024 ranks is explained in at most 40 lines") {
  const CheckReport ring = report_of([](RankContext& context) {
    const Tensor out = context.tensor(4);
    const Tensor in = context.tensor(4);
    const int size = context.size();
    context.world().recv(in, (context.rank() + size - 1) % size).wait();
    context.world().send(out, (context.rank() + 1) % size).wait();
  });
  REQUIRE(ring.failure);
  CHECK(ring.failure->code == "DEADLOCK");
  CHECK(ring.failure->sides.size() == kMany);
  CHECK(lines_of(ring.to_text()) <= 40);
}

TEST_CASE("a circle across 64 groups of 1,024 ranks names the few ranks that are in it") {
  const CheckReport mesh = report_of([](RankContext& context) {
    const int rank = context.rank();
    const auto row = context.world().split(rank / kSide, rank, "row");
    const auto column = context.world().split(rank % kSide, rank, "column");
    const bool row_first = (rank / kSide + rank % kSide) % 2 == 0;
    const Tensor sums = context.tensor(4);
    (row_first ? *row : *column).all_reduce(sums, ReduceOp::sum).wait();
    (row_first ? *column : *row).all_reduce(sums, ReduceOp::sum).wait();
  });
  REQUIRE(mesh.failure);
  CHECK(mesh.failure->code == "DEADLOCK");
  CHECK(mesh.failure->cycle.size() == 4);
  CHECK(lines_of(mesh.to_text()) <= 40);
}

TEST_CASE("a third of 1,024 ranks that is missing is named in one line") {
  const CheckReport missing = report_of([](RankContext& context) {
    if (context.rank() % 3 == 1) return;
    context.world().all_reduce(context.tensor(4), ReduceOp::sum).wait();
  });
  REQUIRE(missing.failure);
  CHECK(missing.failure->code == "COLL_MISSING");
  CHECK(missing.failure->sides.front().ranks.size() == 341);
  CHECK(lines_of(missing.to_text()) <= 10);
}

}  // namespace shardsim
