#include <cstdint>
#include <cstring>
#include <string>

#include <catch2/catch.hpp>

#include "sim/harness/check.hpp"

// Buffers are hidden until they are waited for: who reads them by a pointer finds no numbers.
namespace shardsim {
namespace {

constexpr std::int64_t kHiddenCount = 4;

Tensor threes(RankContext& context, DType dtype) {
  const Tensor tensor = context.runtime().allocate(MemoryCategory::comm, {kHiddenCount}, dtype);
  for (std::int64_t i = 0; i < kHiddenCount; ++i) tensor.set(i, 3.0);
  return tensor;
}

// Reads the first element by a pointer from before the call: as kernels do.
double first_at(const std::byte* data, DType dtype) {
  if (dtype == DType::int32) {
    std::int32_t value = 0;
    std::memcpy(&value, data, sizeof(value));
    return value;
  }
  double value = 0.0;
  std::memcpy(&value, data, sizeof(value));
  return value;
}

// The largest of threes is three, before the call and behind it: wrong is only to look.
Program reads_early(DType dtype, bool has_moved) {
  return [=](RankContext& context) {
    const Tensor buffer = threes(context, dtype);
    const std::byte* const data = buffer.data();
    Work work = context.world().all_reduce(buffer, ReduceOp::max, {.label = "largest"});
    // Behind it on the stream: when this has ended, the data have moved.
    if (has_moved) context.world().barrier().wait();
    const double early = context.rank() == 1 ? first_at(data, dtype) : 3.0;
    work.wait();
    context.show(Shown::output, "largest", early);
  };
}

}  // namespace

TEST_CASE("a reduction in place is hidden until it is waited for, whether data have moved or not") {
  for (const DType dtype : {DType::fp64, DType::int32}) {
    for (const bool has_moved : {false, true}) {
      const CheckReport report = check(reads_early(dtype, has_moved), {.ranks = {3}});
      CAPTURE(static_cast<int>(dtype), has_moved, report.to_text());
      REQUIRE(report.failure);
      CHECK(report.failure->code == "BUF_READ_EARLY");
      CHECK(report.failure->sides.front().ranks == std::vector<int>{1});
      CHECK(report.to_text().find("\"largest\"") != std::string::npos);
      CHECK(std::string(report.failure->sides.front().site.file).find("early_read_test") !=
            std::string::npos);
    }
  }
}

TEST_CASE("a requirement that fails on a buffer in flight is an early read") {
  const CheckReport report = check(
      [](RankContext& context) {
        const Tensor counts = threes(context, DType::int32);
        const std::byte* const data = counts.data();
        Work work = context.world().all_reduce(counts, ReduceOp::max);
        context.require(first_at(data, DType::int32) == 3.0, "three tokens for each");
        work.wait();
      },
      {.ranks = {2}});
  REQUIRE(report.failure);
  CHECK(report.failure->code == "BUF_READ_EARLY");
  CHECK(report.to_text().find("ends with CHECK_FAILED") != std::string::npos);
}

TEST_CASE("what is hidden comes back: in place, in chains, and behind a short message") {
  const CheckReport report = check(
      [](RankContext& context) {
        const Tensor chained = threes(context, DType::fp64);
        const std::byte* const data = chained.data();
        Work first = context.world().all_reduce(chained, ReduceOp::max);
        Work second = context.world().all_reduce(chained, ReduceOp::min);
        second.wait();
        first.wait();
        context.require(first_at(data, DType::fp64) == 3.0, "the largest of threes");
        const Tensor longer = threes(context, DType::fp64);
        Tensor shorter = context.tensor(2, [](std::int64_t) { return 5.0; });
        const int size = context.size();
        Work sent = context.messages().send(shorter, (context.rank() + 1) % size, 0);
        context.messages().recv(longer, (context.rank() + size - 1) % size, 0).wait();
        sent.wait();
        context.require(longer.get(1) == 5.0 && longer.get(2) == 3.0, "the rest is as it was");
      },
      {.ranks = {1, 2, 3}});
  CAPTURE(report.to_text());
  CHECK(report.passed());
}

TEST_CASE("a wrong number that no buffer in flight has caused keeps its code") {
  const CheckReport report = check(
      [](RankContext& context) {
        const Tensor buffer = threes(context, DType::fp64);
        context.world().all_reduce(buffer, ReduceOp::sum).wait();
        context.show(Shown::output, "largest", buffer);
      },
      {.ranks = {2}});
  REQUIRE(report.failure);
  CHECK(report.failure->code == "OUT_DIFF");
}

}  // namespace shardsim
