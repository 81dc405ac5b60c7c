#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/harness/corpus/corpus_row.hpp"

// The bug corpus: every row must be detected with its code, the ranks at fault and the place in the
// program, and nothing be said of the same programs without the bug.
namespace shardsim::corpus {

namespace {

// Sizes at which programs without a bug must be right, besides their own.
std::vector<int> sizes_of(const Row& row) {
  constexpr int kSmall = 3;
  std::vector<int> sizes = {1, 2, kSmall};
  sizes.insert(sizes.end(), row.options.ranks.begin(), row.options.ranks.end());
  return sizes;
}

Finding find(const Row& row) {
  Plant::Lines lines;
  const CheckReport report = check(program_of(row, true, &lines), options_of(row));
  if (row.warning) {
    CHECK(report.passed());
    if (report.warnings.empty()) return {.code = "none"};
    CHECK(report.warnings.size() == 1);
    return judge(row, report.warnings.front(), lines);
  }
  if (report.passed()) return {.code = "none"};
  const Finding finding = judge(row, *report.failure, lines);
  if (!finding.all_right()) UNSCOPED_INFO(report.to_text());
  return finding;
}

}  // namespace

TEST_CASE("every bug of the corpus is detected: its code, who is at fault, and where") {
  std::string table;
  std::map<std::string, bool> detected;  // By id: all programs of it.
  for (const Row& row : failing_rows()) {
    const Finding found = find(row);
    char line[256];
    std::snprintf(line, sizeof(line), "%-4s %-48s %-16s %-16s %-6s %-28s %s%s%s%s%s\n",
                  row.id.c_str(), row.bug.c_str(), row.code.c_str(), found.code.c_str(),
                  found.ranks.c_str(), found.place.c_str(), found.all_right() ? "pass" : "FAIL",
                  found.right_code ? "" : " code", found.right_ranks ? "" : " ranks",
                  found.right_place ? "" : " place", found.right_text ? "" : " text");
    table += line;
    CAPTURE(row.id, row.bug, line);
    CHECK(found.all_right());
    const auto entry = detected.emplace(row.id, true).first;
    entry->second = entry->second && found.all_right();
  }
  int reports = 0;
  for (const Row& row : legal_rows()) {
    const CheckReport report = check(program_of(row, false), options_of(row));
    reports += static_cast<int>(report.warnings.size()) + (report.passed() ? 0 : 1);
  }
  CHECK(reports == 0);
  int num_detected = 0;
  for (const auto& [_, found] : detected) num_detected += found ? 1 : 0;
  std::printf("%s%d of %zu detected; %d reports on N01-N09\n", table.c_str(), num_detected,
              detected.size(), reports);
  CHECK(detected.size() == 55);
}

TEST_CASE("the programs of the corpus are silent without their bugs") {
  for (const Row& row : failing_rows()) {
    CheckOptions options = options_of(row);
    options.ranks = sizes_of(row);
    const CheckReport report = check(program_of(row, false), options);
    CAPTURE(row.id, row.bug, report.to_text());
    CHECK(report.passed());
    CHECK(report.warnings.empty());
  }
}

TEST_CASE("programs that are right though unusual are silent in all modes") {
  for (const Row& row : legal_rows()) {
    for (const ExploreMode mode : {ExploreMode::none, ExploreMode::pct, ExploreMode::dpor}) {
      CheckOptions options = options_of(row);
      options.explore.mode = mode;
      const CheckReport report = check(program_of(row, false), options);
      CAPTURE(row.id, static_cast<int>(mode), report.to_text());
      CHECK(report.passed());
      CHECK(report.warnings.empty());
    }
  }
}

TEST_CASE("bugs that depend on the schedule are not to be seen in the one that comes first") {
  int explored = 0;
  for (const Row& row : failing_rows()) {
    if (!row.explored) continue;
    ++explored;
    CheckOptions options = options_of(row);
    options.explore.mode = ExploreMode::none;
    CAPTURE(row.id);
    CHECK(check(program_of(row, true), options).passed());
    options.explore.mode = ExploreMode::dpor;
    const CheckReport report = check(program_of(row, true), options);
    REQUIRE(!report.passed());
    CHECK(report.failure->code == row.code);
  }
  CHECK(explored == 4);
}

}  // namespace shardsim::corpus
