#include <catch2/catch.hpp>

#include "sim/diff/comparison.hpp"
#include "sim/diff/run_side.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/diff/diff_fixture.hpp"

// Steps that do not do the same are compared by tokens/s per GPU, and said to be others.
namespace shardsim::test {

namespace {

constexpr std::int64_t kOneSecond = 1'000'000'000'000;

// Takes `seconds` for `tokens` on `gpus`.
RunSide working_side(std::int64_t seconds, int tokens, int gpus) {
  RunSide side = made_side(seconds * kOneSecond, {{"compute", seconds * kOneSecond}});
  const double rate = static_cast<double>(tokens) / static_cast<double>(seconds);
  side.metrics = {{"tokens_per_s", rate}, {"tokens_per_s_per_gpu", rate / gpus}};
  return side;
}

std::string said_of(const RunSide& a, const RunSide& b) { return sentence_of(compare(a, b)); }

std::string said_of_plan(const std::vector<std::string>& overrides) {
  return said_of(read_side({.path = kPlan, .overrides = {}}, {}),
                 read_side({.path = kPlan, .overrides = overrides}, {}));
}

}  // namespace

TEST_CASE("a step of another batch is not slower: its tokens are counted", "[diff]") {
  CHECK(said_of(working_side(4, 64, 8), working_side(8, 128, 8)) ==
        "B's step takes 8.00 s instead of 4.00 s, for 2.00 times the tokens: the same tokens/s per "
        "GPU.");
  CHECK(said_of(working_side(4, 64, 8), working_side(8, 160, 8)) ==
        "B's step takes 8.00 s instead of 4.00 s, for 2.50 times the tokens: 25.0 % more tokens/s "
        "per GPU.");
  CHECK(said_of(working_side(8, 160, 8), working_side(4, 64, 8)) ==
        "B's step takes 4.00 s instead of 8.00 s, for 0.40 times the tokens: 20.0 % fewer tokens/s "
        "per GPU.");
  CHECK(said_of(working_side(4, 64, 8), working_side(5, 64, 8)) ==
        "B is 1.25 times slower (5.00 s instead of 4.00 s), mostly because it computes more "
        "(+1.00 s).");
}

TEST_CASE("a step on other GPUs is compared by GPU and in all", "[diff]") {
  CHECK(said_of(working_side(4, 64, 8), working_side(4, 128, 16)) ==
        "B's step takes 4.00 s as A's does, on 16 instead of 8 GPUs and for 2.00 times the tokens: "
        "the same tokens/s per GPU and 2.00 times the tokens/s in all.");
  CHECK(said_of(working_side(8, 64, 8), working_side(5, 64, 16)) ==
        "B's step takes 5.00 s instead of 8.00 s, on 16 instead of 8 GPUs: 20.0 % fewer tokens/s "
        "per GPU and 60.0 % more tokens/s in all.");
}

TEST_CASE("another model or sequence length is another model", "[diff]") {
  RunSide a = working_side(4, 64, 8);
  RunSide b = working_side(8, 64, 8);
  a.fields = {{"model.num_layers", "32"}, {"model.seq_len", "8192"}};
  b.fields = {{"model.num_layers", "56"}, {"model.seq_len", "4096"}};
  CHECK(said_of(a, b) ==
        "B is another model (56 layers instead of 32, sequence length 4096 instead of 8192): its "
        "step takes 8.00 s instead of 4.00 s, with 0.50 times the tokens/s per GPU.");
  a.band = {1.0, 9.0};
  b.band = {1.0, 9.0};
  CHECK(compare(a, b).verdict == BandVerdict::unlike);
  // A side that tells no tokens can still be another model.
  a.metrics.clear();
  CHECK(said_of(a, b).substr(said_of(a, b).find(':')) ==
        ": its step takes 8.00 s instead of 4.00 s.");
}

TEST_CASE("bands of steps of other work are of their rates", "[diff]") {
  RunSide a = working_side(4, 64, 8);
  RunSide b = working_side(8, 160, 8);  // At A's 64 tokens it would take 3.2 s; A at its 160, 10 s.
  a.band = {3.0, 5.0};
  b.band = {6.0, 11.0};
  CHECK(compare(a, b).verdict == BandVerdict::within_band);
  CHECK(said_of(a, b) ==
        "B's step takes 8.00 s instead of 4.00 s, for 2.50 times the tokens: 25.0 % more tokens/s "
        "per GPU; the rates per GPU are within each other's error band, so a measurement may not "
        "tell them apart.");
  b.band = {6.0, 9.0};
  CHECK(compare(a, b).verdict == BandVerdict::distinguishable);
  a.band = {3.5, 5.0};
  b.band = {6.0, 11.0};
  CHECK(compare(a, b).verdict == BandVerdict::distinguishable);
}

TEST_CASE("plans of another batch and of more nodes are no slower plans", "[diff]") {
  const std::string batch =
      said_of_plan({"training.global_batch_size=256", "training.num_microbatches=4"});
  CHECK(batch.rfind("B's step takes ", 0) == 0);
  CHECK(contains(batch, ", for 2.00 times the tokens: "));
  CHECK_FALSE(contains(batch, "slower"));
  const std::string nodes = said_of_plan(
      {"system.nodes=16", "parallelism.dp_shard=128", "training.global_batch_size=256"});
  CHECK(contains(nodes, ", on 128 instead of 64 GPUs and for 2.00 times the tokens: "));
  CHECK(said_of_plan({"model.seq_len=4096"})
            .rfind("B is another model (sequence length 4096 instead of 8192): its step takes ",
                   0) == 0);
}

}  // namespace shardsim::test
