#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/diff/comparison.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/diff/diff_fixture.hpp"

// Throughput, goodput and cost: what a run comes to besides its step.
namespace shardsim::test {

namespace {

RunSide side_with(std::map<std::string, double> metrics) {
  RunSide side = made_side(1'000'000'000'000, {});
  side.metrics = std::move(metrics);
  return side;
}

std::string rows_of(const RunSide& a, const RunSide& b) {
  return outcomes_text(compare(a, b).outcomes);
}

const std::vector<std::string> kFaults = {
    "--set", "faults.gpu_mtbf_hours=50000", "--set", "faults.checkpoint_write_s=30",
    "--set", "faults.restart_s=300",        "--set", "training.tokens_total=1000000000000",
    "--set", "cost.usd_per_gpu_hour=2"};

Printed diff_with_faults(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"diff", kPlan};
  words.insert(words.end(), kFaults.begin(), kFaults.end());
  words.insert(words.end(), more.begin(), more.end());
  return shardsim(words);
}

}  // namespace

TEST_CASE("throughput is a row where both sides tell it", "[diff]") {
  const RunSide a = side_with({{"tokens_per_s_per_gpu", 10080.0}});
  CHECK(rows_of(a, side_with({{"tokens_per_s_per_gpu", 10584.0}})) ==
        "\ntokens/s/GPU               10,080       10,584          +504     +5.0 %\n");
  CHECK(rows_of(a, side_with({})).empty());
}

TEST_CASE("goodput and cost are rows where one side tells them", "[diff]") {
  const RunSide a = side_with({});
  const RunSide b = side_with({{"goodput.fraction", 0.75},
                               {"cost.days", 20.0},
                               {"cost.gpu_hours", 2000.0},
                               {"cost.usd", 4000.0}});
  CHECK(rows_of(a, b) ==
        "\ngoodput                         -      75.00 %\n"
        "training takes                  -    20.0 days\n"
        "GPU hours                       -       2.00 k\n"
        "training costs                  -      $4.00 k\n");
  const RunSide c = side_with({{"goodput.fraction", 0.5}, {"cost.days", 30.0}});
  CHECK(rows_of(side_with({{"goodput.fraction", 0.75}, {"cost.days", 20.0}}), c) ==
        "\ngoodput                   75.00 %      50.00 % -25.00 points\n"
        "training takes          20.0 days    30.0 days    +10.0 days    +50.0 %\n");
}

TEST_CASE("the sentence tells goodput where it changes", "[diff]") {
  const RunSide none = side_with({});
  RunSide a = side_with({{"goodput.fraction", 0.75}});
  RunSide b = side_with({{"goodput.fraction", 0.5}});
  const std::string same = "A and B take the same time (1.00 s)";
  CHECK(sentence_of(compare(a, b)) == same + "; B's goodput is 50.00 % instead of 75.00 %.");
  CHECK(sentence_of(compare(none, b)) == same + "; B's goodput is 50.00 %, and A has no failures.");
  CHECK(sentence_of(compare(a, none)) == same + "; B has no failures, and A's goodput is 75.00 %.");
  CHECK(sentence_of(compare(a, a)) == same + ".");
  a.peak_bytes = 1 << 30;
  b.peak_bytes = 1 << 29;
  CHECK(sentence_of(compare(a, b)) ==
        same + "; B's goodput is 50.00 % instead of 75.00 %; B needs 512 MiB less memory.");
  b.kind = SideKind::measured_result;  // A run of some minutes tells no goodput.
  CHECK_FALSE(contains(sentence_of(compare(a, b)), "goodput"));
}

TEST_CASE("equal times need no band to tell them apart", "[diff]") {
  RunSide a = side_with({});
  a.band = {0.5, 1.5};
  CHECK(compare(a, a).verdict == BandVerdict::within_band);
  CHECK(sentence_of(compare(a, a)) == "A and B take the same time (1.00 s).");
}

TEST_CASE("failures that are reckoned with are seen in text and JSON", "[diff]") {
  const Printed printed = diff_with_faults({});
  INFO(printed.out << printed.err);
  CHECK(contains(printed.out, "\ntokens/s/GPU "));
  CHECK(contains(printed.out, "\ngoodput                         -      99."));
  CHECK(contains(printed.out, "\ntraining costs                  -      $"));
  CHECK(contains(printed.out, "); B's goodput is 99."));
  CHECK_FALSE(contains(printed.out, "error band"));
  const auto outcomes = nlohmann::json::parse(diff_with_faults({"--json"}).out)["outcomes"];
  REQUIRE(outcomes.size() == 5);
  CHECK(outcomes[0]["name"] == "tokens_per_s_per_gpu");
  CHECK(outcomes[0]["a"] == outcomes[0]["b"]);
  CHECK(outcomes[1]["name"] == "goodput.fraction");
  CHECK(outcomes[1]["a"].is_null());
  CHECK(outcomes[1]["b"] > 0.99);
  CHECK(outcomes[2]["name"] == "cost.days");
  CHECK(outcomes[4]["name"] == "cost.usd");
}

}  // namespace shardsim::test
