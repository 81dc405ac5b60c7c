#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/backends/all_backends.hpp"

// The hash of a call that a watch is told covers uneven chunks and the places of padding, on every
// backend that tells one. Otherwise a comparison of calls would miss members that disagree about
// them.
namespace shardsim {
namespace {

// Keeps the hash of every call by its label.
class HashDiary final : public CallWatch {
 public:
  void posted(const Call& call) override { hashes[call.record.label] = call.record.counts_hash; }
  void started(const Call& /*call*/) override {}
  void ended(const Call& /*call*/) override {}
  void poll() override {}

  std::map<std::string, std::uint64_t> hashes;
};

constexpr int kRanks = 3;

void call_everything(Runtime& runtime, Communicator& world) {
  const auto make = [&](std::int64_t count) {
    return runtime.allocate(MemoryCategory::comm, {count}, DType::fp32);
  };
  const std::vector<std::int64_t> one = {1, 2, 3};
  const std::vector<std::int64_t> other = {1, 3, 2};
  const auto own = [&](const std::vector<std::int64_t>& counts) {
    return make(counts[static_cast<std::size_t>(world.rank())]);
  };
  const Tensor six = make(6);
  world.all_gather(six, make(2), {.label = "even"}).wait();
  world.all_gather(six, own(one), {.label = "gather one", .counts = one}).wait();
  world.all_gather(six, own(other), {.label = "gather other", .counts = other}).wait();
  world.reduce_scatter(own(one), six, ReduceOp::sum, {.label = "scatter one", .counts = one})
      .wait();
  world.gather(six, own(other), 1, {.label = "root other", .counts = other}).wait();
  const std::vector<ElementRange> first = {{0, 1}};
  const std::vector<ElementRange> second = {{1, 2}};
  const auto pad = [&](const char* label, std::span<const ElementRange> at) {
    world.all_reduce(six, ReduceOp::sum, {.label = label, .padding = 1, .padding_at = at}).wait();
  };
  pad("pad at the end", {});
  pad("pad first", first);
  pad("pad second", second);
}

void check(const std::vector<HashDiary>& diaries) {
  for (const HashDiary& diary : diaries) CHECK(diary.hashes == diaries[0].hashes);
  REQUIRE(diaries[0].hashes.size() == 8);
  const auto of = [&](const char* label) { return diaries[0].hashes.at(label); };
  CHECK(of("even") == 0);
  CHECK(of("gather one") != 0);
  CHECK(of("gather one") != of("gather other"));
  CHECK(of("scatter one") == of("gather one"));
  CHECK(of("root other") == of("gather other"));
  CHECK(of("pad at the end") == 0);
  CHECK(of("pad first") != 0);
  CHECK(of("pad first") != of("pad second"));
}

}  // namespace

TEST_CASE("a watch is told uneven chunks and places of padding, over messages and over NCCL") {
  std::vector<HashDiary> diaries(kRanks);
  const auto watch = [&](int rank) { return &diaries[static_cast<std::size_t>(rank)]; };
  SECTION("messages") { run_message_ranks(kRanks, call_everything, {.watch = watch}); }
  SECTION("NCCL") { run_nccl_ranks(kRanks, call_everything, {.watch = watch}); }
  check(diaries);
}

}  // namespace shardsim
