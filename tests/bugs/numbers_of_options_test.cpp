#include <catch2/catch.hpp>

#include "tests/app/command_fixture.hpp"

// NaN is below no limit and above none, so options accepted it: a run that was lost only after NaN
// seconds, a search at NaN dollars. A search also accepted an infinite width of its front.
namespace shardsim::test {

namespace {

const std::vector<std::string> kRun = {"run", "scenarios/verify-mlp-ddp.json", "-q"};
// One layout is no search at all.
const std::vector<std::string> kPlan1 = {
    "plan",  "llama3-8b",          "--gpus",    "1",   "--gpu", "h100", "--global-batch-size", "1",
    "--fix", "micro_batch_size=1", "--seq-len", "128", "-q"};

Printed with_option(std::vector<std::string> words, const std::string& option,
                    const std::string& value) {
  words.push_back(option + "=" + value);
  return shardsim(words);
}

struct Option {
  const std::vector<std::string>* command;
  const char* name;
  const char* code;
  std::vector<std::string> wrong;
};

const std::vector<std::string> kNoSize = {"nan", "-nan", "NaN", "inf", "-inf", "-1", "1e999", "x"};

}  // namespace

TEST_CASE("an option takes no number that is none, is infinite or out of range") {
  const std::vector<Option> options = {
      {&kRun, "--timeout", "E0904", {"0", "0.5", "86401"}},
      {&kPlan1, "--usd-per-gpu-hour", "E1330", {"-0.5", "1000001"}},
      {&kPlan1, "--front-within", "E1330", {"0", "0.99", "1000001"}},
      {&kPlan1, "--time-limit", "E1330", {"-1", "1000000001"}},
      {&kPlan1, "--top", "E1330", {"0", "1000001"}},
      {&kPlan1, "--jobs", "E1330", {"0", "4097"}},
  };
  for (const Option& option : options) {
    std::vector<std::string> values = kNoSize;
    values.insert(values.end(), option.wrong.begin(), option.wrong.end());
    for (const std::string& value : values) {
      INFO(option.name << " " << value);
      const Printed printed = with_option(*option.command, option.name, value);
      CHECK(printed.exit_code == 2);
      CHECK(printed.out.empty());
      CHECK(contains(printed.err, option.name));
      // The reader of options refuses values of another kind.
      CHECK((contains(printed.err, option.code) || contains(printed.err, "E0904")));
    }
  }
}

TEST_CASE("a seed of schedules is the one that was asked for") {
  const std::vector<std::string> explore = {"run", "scenarios/verify-mlp-ddp.json", "-q",
                                            "--explore=pct", "--schedules=1"};
  for (const char* const value : {"-1", "18446744073709551616", "nan", "1.5", "1e3"}) {
    INFO(value);
    const Printed printed = with_option(explore, "--explore-seed", value);
    CHECK(printed.exit_code == 2);
    CHECK(contains(printed.err, "error[E0904]"));
  }
  CHECK(with_option(explore, "--explore-seed", "18446744073709551615").exit_code == 0);
}

TEST_CASE("what an option may be is taken") {
  CHECK(with_option(kRun, "--timeout", "1").exit_code == 0);
  CHECK(with_option(kRun, "--timeout", "86400").exit_code == 0);
  for (const char* const price : {"0", "2.5"}) {
    CHECK(contains(with_option(kPlan1, "--usd-per-gpu-hour", price).out, "llama3-8b"));
  }
}

}  // namespace shardsim::test
