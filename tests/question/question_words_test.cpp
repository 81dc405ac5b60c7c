#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "sim/question/question.hpp"

namespace shardsim::test {

namespace {

std::string code_of_question(const QuestionWords& words) {
  try {
    (void)read_question(words, {});
  } catch (const UsageError& error) {
    return error.code();
  }
  return "none";
}

}  // namespace

TEST_CASE("numbers of GPUs are single ones, lists and ranges that double") {
  using Counts = std::vector<std::int64_t>;
  CHECK(read_gpu_counts("1000") == Counts{1000});
  CHECK(read_gpu_counts("256..2048") == Counts{256, 512, 1024, 2048});
  CHECK(read_gpu_counts("24..96") == Counts{24, 48, 96});
  CHECK(read_gpu_counts("8..8") == Counts{8});
  CHECK(read_gpu_counts("512, 64,512,32..64") == Counts{512, 64, 32});
  CHECK(read_gpu_counts("1..4611686018427387904").size() == 63);
  for (const char* const wrong : {"", "x", "8,", "..8", "8..", "8...16", "16..8", "100..300", "0",
                                  "-8", "0..8", "8.5", "99999999999999999999"}) {
    INFO(wrong);
    CHECK_THROWS_AS(read_gpu_counts(wrong), UsageError);
  }
}

TEST_CASE("one price is that of every kind, and a kind without one has none") {
  const Question same =
      read_question({.gpus = "8", .gpu = "h100,b200", .usd_per_gpu_hour = "2.5"}, {});
  REQUIRE(same.machines.size() == 2);
  CHECK(same.machines[0].usd_per_gpu_hour == 2.5);
  CHECK(same.machines[1].usd_per_gpu_hour == 2.5);
  const Question one =
      read_question({.gpus = "8", .gpu = "h100,b200", .usd_per_gpu_hour = "b200=5"}, {});
  CHECK_FALSE(one.machines[0].usd_per_gpu_hour);
  CHECK(one.machines[1].usd_per_gpu_hour == 5.0);
  const Question none = read_question({.gpus = "8", .gpu = "h100"}, {});
  CHECK_FALSE(none.machines[0].usd_per_gpu_hour);
}

TEST_CASE("a question is about machines if it compares some, or has a deadline or a budget") {
  CHECK_FALSE(asks_for_machines(read_question({.gpus = "8", .gpu = "h100", .tokens = "1T"}, {})));
  CHECK(asks_for_machines(read_question({.gpus = "8,16", .gpu = "h100"}, {})));
  CHECK(asks_for_machines(read_question({.gpus = "8", .gpu = "h100,b200"}, {})));
  CHECK(asks_for_machines(
      read_question({.gpus = "8", .gpu = "h100", .tokens = "1T", .deadline = "9d"}, {})));
}

TEST_CASE("words of a question that do not fit together are refused with a code") {
  const QuestionWords right = {.gpus = "8",
                               .gpu = "h100,b200",
                               .usd_per_gpu_hour = "h100=2,b200=4",
                               .tokens = "1T",
                               .deadline = "90d",
                               .budget = "6M"};
  CHECK(code_of_question(right) == "none");
  const auto with = [&right](auto change) {
    QuestionWords words = right;
    change(words);
    return code_of_question(words);
  };
  CHECK(with([](QuestionWords& w) { w.gpus = "8..9"; }) == "E1323");
  CHECK(with([](QuestionWords& w) { w.gpu = "h100,,b200"; }) == "E1336");
  CHECK(with([](QuestionWords& w) { w.gpu = "h100,h100"; }) == "E1336");
  CHECK(with([](QuestionWords& w) { w.usd_per_gpu_hour = "h100=2,b200"; }) == "E1330");
  CHECK(with([](QuestionWords& w) { w.usd_per_gpu_hour = "h100=2,h100=3"; }) == "E1337");
  CHECK(with([](QuestionWords& w) { w.usd_per_gpu_hour = "h100=2,a100=1"; }) == "E1337");
  CHECK(with([](QuestionWords& w) { w.usd_per_gpu_hour = "nan"; }) == "E1330");
  CHECK(with([](QuestionWords& w) { w.tokens = "many"; }) == "E1335");
}

// Data parallelism may then have all odd factors, and powers of two change nothing.
TEST_CASE("a default batch suits all numbers of GPUs that a question names") {
  const auto batch = [](const std::vector<std::int64_t>& gpus, std::int64_t seq_len = 8192) {
    return default_batch(seq_len, gpus);
  };
  CHECK(batch({8}) == 128);     // 1 Mi tokens
  CHECK(batch({1024}) == 512);  // 4 Ki tokens for each GPU
  CHECK(batch({256, 1024}) == 512);
  CHECK(batch({65536}) == 2048);  // 16 Mi tokens
  CHECK(batch({8}, 4'194'304) == 1);
  CHECK(batch({1000}) == 500);
  CHECK(batch({24}) % 3 == 0);
  CHECK(batch({24, 1000}) % 375 == 0);
  CHECK(batch({48, 1000}) >= 488);
  CHECK(batch({728, 1000}) == batch({1000, 728}));
  // Their product is -1 in 64 bits.
  CHECK(batch({3, 6148914691236517205}) == 3072);
  CHECK(batch({8191 * 2}) == 2048);  // No batch has such a factor.
}

}  // namespace shardsim::test
