#include <cstdio>
#include <string>

#include <catch2/catch.hpp>

#include "tests/harness/corpus/corpus_row.hpp"

// A failure's token, and nothing else, brings it back.
namespace shardsim::corpus {

namespace {

struct Count {
  int failures = 0;
  int replayed = 0;
};

// Without how many schedules were tried: of a replay, one.
std::string text_of(Diagnosis failure) {
  failure.schedule.clear();
  return failure.to_text();
}

void replay(const Row& row, CheckOptions options, Count& count) {
  const Program program = program_of(row, true);
  const CheckReport report = check(program, options);
  CAPTURE(row.id, row.bug, report.to_text());
  REQUIRE(report.failure.has_value());
  REQUIRE(report.token.has_value());
  ++count.failures;
  options.replay = to_text(*report.token);
  CHECK(parse_token(options.replay) == *report.token);
  const CheckReport again = check(program, options);
  CAPTURE(options.replay, again.to_text());
  REQUIRE(again.failure.has_value());
  CHECK(again.failure->code == report.failure->code);
  CHECK(text_of(*again.failure) == text_of(*report.failure));
  if (text_of(*again.failure) == text_of(*report.failure)) ++count.replayed;
}

}  // namespace

TEST_CASE("100 of 100 failures are replayed by their tokens, word for word") {
  constexpr int kFailures = 100;
  Count count;
  for (const Row& row : failing_rows()) {
    if (!row.warning) replay(row, options_of(row), count);
  }
  REQUIRE(count.failures < kFailures);
  for (std::uint64_t seed = 2; count.failures < kFailures; ++seed) {
    for (const Row& row : failing_rows()) {
      if (!row.explored || count.failures == kFailures) continue;
      CheckOptions options = options_of(row);
      options.explore.seed = seed;
      replay(row, options, count);
    }
  }
  std::printf("%d of %d failures replayed\n", count.replayed, count.failures);
  CHECK(count.replayed == kFailures);
}

TEST_CASE("C17: a message that nobody takes is found with buffered sends, too") {
  for (const Row& row : failing_rows()) {
    if (row.id != "C17") continue;
    CheckOptions options = options_of(row);
    const CheckReport report = check(program_of(row, true), options);
    REQUIRE(report.token.has_value());
    ReplayToken token = *report.token;
    token.schedule.sends = SendMode::buffered;
    options.replay = to_text(token);
    Plant::Lines lines;
    const CheckReport buffered = check(program_of(row, true, &lines), options);
    CAPTURE(row.bug, buffered.to_text());
    REQUIRE(buffered.failure.has_value());
    CHECK(buffered.failure->code == "P2P_UNMATCHED");
    CHECK(judge(row, *buffered.failure, lines).right_place);
  }
}

}  // namespace shardsim::corpus
