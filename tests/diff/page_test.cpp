#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/diff/comparison.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/diff/diff_fixture.hpp"

// `shardsim diff A B C --report FILE`: up to four sides, each compared with A.
namespace shardsim::test {

namespace {

RunSide lettered(const char* letter, const std::vector<std::string>& overrides) {
  RunSide side = read_side({.path = kPlan, .overrides = overrides}, {});
  side.letter = letter;
  return side;
}

std::vector<RunSide> three_sides() {
  return {lettered("A", {}), lettered("B", {"parallelism.zero_stage=2"}),
          lettered("C", {"training.micro_batch_size=2"})};
}

}  // namespace

TEST_CASE("each side of a page has the numbers of its own run", "[diff]") {
  const std::vector<RunSide> sides = three_sides();
  const ComparisonPage page = page_of(sides);
  REQUIRE(page.sides.size() == 3);
  for (std::size_t i = 0; i < sides.size(); ++i) {
    INFO(sides[i].letter);
    double sum = 0;
    for (const ComparedPart& part : page.sides[i].time) sum += part.amount;
    CHECK(sum == Approx(*sides[i].metric("step_time_s")).epsilon(1e-9));
    double bytes = 0;
    for (const ComparedPart& part : page.sides[i].memory) bytes += part.amount;
    CHECK(bytes == Approx(*sides[i].metric("memory.device_bytes.max")).epsilon(1e-9));
    const bool fits = bytes <= page.sides[i].device_bytes;
    CHECK(page.sides[i].verdict == (fits ? "fits" : "does not fit"));
    CHECK(fits == (i == 0));  // The plan fits, neither change of it does.
    CHECK(page.sides[i].numbers.front().change.empty() == (i == 0));
  }
}

TEST_CASE("sentences compare with the first side, by the letter of the other", "[diff]") {
  const std::vector<RunSide> sides = three_sides();
  const ComparisonPage page = page_of(sides);
  REQUIRE(page.sentences.size() == 2);
  CHECK(page.sentences[0].starts_with("B "));
  CHECK(page.sentences[1].starts_with("C "));
  CHECK(page.sentences[0] == sentence_of(compare(sides[0], sides[1])));
}

TEST_CASE("a page says where a side is another training", "[diff]") {
  const ComparisonPage page = page_of({lettered("A", {}), lettered("B", {"model.seq_len=4096"})});
  REQUIRE(page.sentences.size() == 2);
  CHECK(page.sentences[1].starts_with("A and B are different trainings: "));
  CHECK(contains(page.sentences[1], "4096"));
}

TEST_CASE("a page lists the fields that are not the same on all sides", "[diff]") {
  const ComparisonPage page = page_of(three_sides());
  std::vector<std::string> paths;
  for (const ComparedRow& row : page.fields) {
    paths.push_back(row.name);
    REQUIRE(row.values.size() == 3);
    CHECK_FALSE((row.values[0] == row.values[1] && row.values[1] == row.values[2]));
  }
  CHECK(std::ranges::count(paths, "parallelism.zero_stage") == 1);
  CHECK(std::ranges::count(paths, "training.micro_batch_size") == 1);
  CHECK(std::ranges::count(paths, "model.num_layers") == 0);
}

TEST_CASE("a page lists no field that has no effect on any side", "[diff]") {
  const ComparisonPage page = page_of({lettered("A", {}), lettered("B", {"parallelism.tp=2"})});
  const auto lists = [&page](const char* path) {
    return std::ranges::any_of(page.fields,
                               [path](const ComparedRow& row) { return row.name == path; });
  };
  CHECK(lists("parallelism.dp_shard"));
  CHECK_FALSE(lists("parallelism.elastic_members"));
}

TEST_CASE("three sides are compared in text, as JSON and on a page", "[diff]") {
  const std::string page = std::filesystem::temp_directory_path() / "shardsim-compared.html";
  const std::string file = "scenarios/gpt2-xl-zero2-32xa100.json";
  const Printed printed = shardsim({"diff", kPlan, kPlan, file, "--report", page});
  INFO(printed.out << printed.err);
  CHECK(printed.exit_code == 0);
  CHECK(contains(printed.out, "\nA and B take the same time"));
  CHECK(contains(printed.out, "\nC is another model"));
  std::ifstream written(page);
  const std::string html((std::istreambuf_iterator<char>(written)), {});
  std::filesystem::remove(page);
  CHECK(contains(html, "<h1>3 runs compared</h1>"));
  const auto json = nlohmann::json::parse(shardsim({"diff", kPlan, kPlan, file, "--json"}).out);
  REQUIRE(json["comparisons"].size() == 2);
  CHECK(json["comparisons"][0]["letter"] == "B");
  CHECK(json["comparisons"][1]["letter"] == "C");
  CHECK(json["comparisons"][1]["b"]["file"] == file);
}

TEST_CASE("a page does not replace what it was made from, and five sides are too many", "[diff]") {
  const Printed same = shardsim({"diff", kPlan, kPlan, "--report", kPlan});
  CHECK(same.exit_code == 2);
  CHECK(contains(same.err, "E0910"));
  CHECK(shardsim({"diff", kPlan, kPlan, kPlan, kPlan, kPlan}).exit_code == 2);
}

}  // namespace shardsim::test
