#include <cmath>
#include <cstdio>
#include <map>
#include <string>

#include <catch2/catch.hpp>

#include "reports/diagnosis_json.hpp"

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
    CHECK(found.right_code);
    CHECK(found.right_ranks);
    CHECK(found.right_place);
    const std::string hint = judge_hint(row, row.row.options.ranks.front(), *report.failure);
    CHECK(hint == "right");
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

// Right where they were written is little: no number of ranks, nor fp32, makes a hint point
// elsewhere.
TEST_CASE("hints on the forty bugs point nowhere else at other sizes and in fp32") {
  for (const DType precision : {DType::fp64, DType::fp32}) {
    std::map<std::string, int> counts;
    for (const HintRow& row : hint_rows()) {
      for (const int ranks : {2, 3, 4, 6}) {
        CheckOptions options = options_of(row.row);
        options.ranks = {ranks};
        options.precision = precision;
        const CheckReport report = check(program_of(row.row, true), options);
        CAPTURE(row.row.id, row.row.bug, ranks, name_of(precision), report.to_text());
        REQUIRE(report.failure);
        const std::string hint = judge_hint(row, ranks, *report.failure);
        ++counts[hint];
        CHECK(hint != "wrong");
      }
    }
    std::printf("%s: right %d, none %d, wrong %d\n", std::string(name_of(precision)).c_str(),
                counts["right"], counts["none"], counts["wrong"]);
  }
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

TEST_CASE("a difference without a name has no hint") {
  for (const Shown what : {Shown::output, Shown::gradient, Shown::norm, Shown::parameter}) {
    const auto shows = [what](double wrong) {
      return [what, wrong](RankContext& context) {
        if (what != Shown::norm) {
          const Tensor values = context.tensor(7, [&](std::int64_t i) {
            const double value = context.draw("value", i);
            return i == 3 && context.size() > 1 ? value + wrong : value;
          });
          context.show(what, "many", values);
        }
        context.show(what, "one", context.size() > 1 ? 1.0 + wrong : 1.0);
      };
    };
    const CheckReport report = check(shows(0.2345), {.ranks = {4}});
    REQUIRE(report.failure);
    CAPTURE(report.to_text());
    CHECK(report.failure->hint.empty());
    CHECK(report.failure->summary.find("differs from that of one device") != std::string::npos);
  }
}

TEST_CASE("groups that each hold their own sum, mean or squares are named") {
  const auto hint_of = [](Shown what, ReduceOp op) {
    const Program program = [=](RankContext& context) {
      const int groups = context.size() > 1 ? 2 : 1;
      const auto half =
          context.world().split(context.rank() * groups / context.size(), context.rank(), "half");
      const int parts = 4 / context.size();
      double mine = 0.0;
      for (int i = 0; i < parts; ++i) {
        const double drawn = context.draw("part", context.rank() * parts + i);
        mine += what == Shown::norm ? drawn * drawn : drawn;
      }
      if (op == ReduceOp::avg) mine /= parts;
      const Tensor sum = context.tensor(1, [&](std::int64_t) { return mine; });
      half->all_reduce(sum, op).wait();
      context.show(what, "x", what == Shown::norm ? std::sqrt(sum.get(0)) : sum.get(0));
    };
    const CheckReport report = check(program, {.ranks = {4}});
    return report.failure ? report.failure->hint : "none";
  };
  for (const Shown what : {Shown::output, Shown::gradient}) {
    CHECK(hint_of(what, ReduceOp::sum) ==
          "ranks 0-1 and 2-3 each hold their own sum: the reduction between them is missing");
    CHECK(hint_of(what, ReduceOp::avg) ==
          "ranks 0-1 and 2-3 each hold their own mean: the reduction between them is missing");
  }
  CHECK(
      hint_of(Shown::norm, ReduceOp::sum).starts_with("the ranks hold parts of a sum of squares"));
}

TEST_CASE("copies of which one is right and one is 0 are no parts of a sum") {
  const Program program = [](RankContext& context) {
    context.show(Shown::output, "x", context.rank() == 1 ? 0.0 : 1.25);
  };
  const CheckReport report = check(program, {.ranks = {2}});
  REQUIRE(report.failure);
  CHECK(report.failure->hint.empty());
  CHECK(report.failure->summary ==
        "output x, step 0 is 0, and not as that of one device on rank 1");
}

TEST_CASE("a report of numbers lists the tensors of the step that are right, in JSON, too") {
  const Program program = [](RankContext& context) {
    const double twice = context.size() > 1 ? 2.0 : 1.0;
    context.show(Shown::output, "hidden", 0.375);
    context.show(Shown::gradient, "weight", 0.625 * twice);
    for (int i = 0; i < 9; ++i) context.show(Shown::gradient, "bias " + std::to_string(i), 1.5);
    context.show(Shown::norm, "all", 0.875 * twice);
    context.show(Shown::output, "later", 7.0, {.step = 1});
  };
  const CheckReport report = check(program, {.ranks = {3}});
  REQUIRE(report.failure);
  CHECK(report.failure->right ==
        "output hidden; gradient of bias 0, bias 1, bias 2, bias 3, bias 4, bias 5 and 3 more");
  CHECK(report.to_text().find("\n  right: output hidden; ") != std::string::npos);
  CHECK(to_json(*report.failure).find("\"right\": \"output hidden; ") != std::string::npos);
}

}  // namespace shardsim::corpus
