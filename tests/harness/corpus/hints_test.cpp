#include <cstdio>
#include <map>
#include <string>

#include <catch2/catch.hpp>

#include "tests/approved_file.hpp"
#include "tests/harness/corpus/hint_rows.hpp"

// Hints of reports on numbers that differ in a way that has a name.
namespace shardsim::corpus {

namespace {

CheckReport report_of(const HintRow& row, Plant::Lines* lines) {
  return check(program_of(row.row, true, lines), options_of(row.row));
}

}  // namespace

TEST_CASE("forty bugs of numbers have their codes, ranks, places and hints") {
  std::string table;
  std::map<std::string, int> counts;
  for (const HintRow& row : hint_rows()) {
    Plant::Lines lines;
    const CheckReport report = report_of(row, &lines);
    CAPTURE(row.row.id, row.row.bug, report.to_text());
    REQUIRE(report.failure);
    const Finding found = judge(row.row, *report.failure, lines);
    CHECK(found.right_ranks);
    CHECK(found.right_place);
    const std::string hint = judge_hint(row, *report.failure);
    ++counts[hint];
    char line[256];
    std::snprintf(line, sizeof(line), "%-4s %-40s %-17s %-6s %-5s ", row.row.id.c_str(),
                  row.row.bug.c_str(), found.code.c_str(), found.ranks.c_str(), hint.c_str());
    table += line + report.failure->hint + "\n";
  }
  table += "right " + std::to_string(counts["right"]) + ", none " + std::to_string(counts["none"]) +
           ", wrong " + std::to_string(counts["wrong"]) + "\n";
  test::require_approved_file("tests/harness/corpus/hints.txt", table);
}

TEST_CASE("the program of the forty bugs is right without them, at all its sizes") {
  for (const HintRow& row : hint_rows()) {
    CheckOptions options = options_of(row.row);
    options.ranks = {1, 2, 3, 4};
    const CheckReport report = check(program_of(row.row, false), options);
    CAPTURE(row.row.id, report.to_text());
    CHECK(report.passed());
  }
}

}  // namespace shardsim::corpus
