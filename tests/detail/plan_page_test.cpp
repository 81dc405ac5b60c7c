#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "reports/html/markup.hpp"

#include "tests/app/command_fixture.hpp"

// `shardsim plan --report`, for the layouts of one machine and for a choice of machines.
namespace shardsim::test {

namespace {

struct PlannedPage {
  Printed printed;
  std::string html;
};

PlannedPage planned(std::vector<std::string> words) {
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "shardsim-plan.html";
  words.insert(words.end(), {"--report", path.string(), "--json"});
  PlannedPage page{shardsim(words), ""};
  INFO(page.printed.out << page.printed.err);
  std::ifstream file(path);
  REQUIRE(file);
  page.html.assign(std::istreambuf_iterator<char>(file), {});
  file.close();
  std::filesystem::remove(path);
  return page;
}

}  // namespace

TEST_CASE("the page of a search has the ranges of its layouts and the flags to train the best") {
  const PlannedPage page = planned({"plan", "llama3-8b", "--gpus", "8", "--gpu", "h100", "--tokens",
                                    "1T", "--usd-per-gpu-hour", "2.5", "--top", "3"});
  CHECK(page.printed.exit_code == 0);
  const auto best = nlohmann::json::parse(page.printed.out)["ranked"][0];
  const double days = best["days"]["centre"].get<double>();
  CHECK(contains(page.html, "<b>about " + html::format_days(days) + "</b>"));
  CHECK(contains(page.html, "<summary>megatron: "));
  CHECK(contains(page.html, "--tensor-model-parallel-size"));
}

TEST_CASE("the page of a question has every machine, with the days of its answer") {
  const PlannedPage page =
      planned({"plan", "llama3-8b", "--gpus", "8,16", "--gpu", "h100", "--tokens", "1T"});
  const auto rows = nlohmann::json::parse(page.printed.out)["rows"];
  REQUIRE(rows.size() == 2);
  for (const auto& row : rows) {
    INFO(row.dump());
    const double days = row["days"]["centre"].get<double>();
    CHECK(contains(page.html, html::format_days(days)));
    CHECK(contains(page.html, std::to_string(row["gpus"].get<int>()) + " x h100"));
  }
  CHECK_FALSE(contains(page.html, "<dt>Cost</dt>"));
}

}  // namespace shardsim::test
