#include <algorithm>
#include <cstdio>
#include <string>

#include <catch2/catch.hpp>

#include "tests/harness/corpus/corpus_row.hpp"

// Failures of 8 ranks come down to few.
namespace shardsim::corpus {

TEST_CASE("90 of 100 failures of the corpus shrink to 4 ranks or fewer, and keep their code") {
  constexpr int kMany = 8;
  constexpr int kFew = 4;
  int failures = 0;
  int small = 0;
  std::size_t decisions = 0;
  std::size_t decisions_left = 0;
  std::string others;
  for (const Row& row : failing_rows()) {
    if (row.warning) continue;
    CheckOptions options = options_of(row);
    options.ranks = {std::max(kMany, row.options.ranks.back())};
    const Program program = program_of(row, true);
    const CheckReport report = check(program, options);
    CAPTURE(row.id, row.bug, report.to_text());
    CHECK(report.failure.has_value());
    if (!report.failure) continue;
    CHECK(report.failure->code == row.code);
    ++failures;
    const Shrunk shrunk = shrink(program, options, report);
    CHECK(shrunk.failure.code == report.failure->code);
    CHECK(shrunk.token.ranks >= row.fewest_ranks);
    decisions += report.token->schedule.decisions.size();
    decisions_left += shrunk.token.schedule.decisions.size();
    options.replay = to_text(shrunk.token);
    const CheckReport again = check(program, options);
    REQUIRE(again.failure.has_value());
    CHECK(again.failure->code == shrunk.failure.code);
    if (shrunk.token.ranks <= kFew) {
      ++small;
    } else {
      others += "  " + row.id + " " + row.bug + ": " + std::to_string(shrunk.token.ranks) +
                " ranks, at least " + std::to_string(row.fewest_ranks) + " needed\n";
    }
  }
  std::printf("%d of %d failures shrink to %d ranks or fewer; %zu of %zu decisions left\n%s", small,
              failures, kFew, decisions_left, decisions, others.c_str());
  CHECK(small * 100 >= failures * 90);
}

}  // namespace shardsim::corpus
