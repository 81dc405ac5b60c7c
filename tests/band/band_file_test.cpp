#include <fstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/accuracy/validated_table.hpp"
#include "sim/run/band/measured_errors.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/validation/own_table.hpp"

// From tables to the file of errors, and the file held against today's predictions.
namespace shardsim::test {
namespace {

ValidatedRow row_with(const PredictedAndMeasured& time) {
  ValidatedRow row;
  row.setting = {"a100", "megatron", 8};
  row.quantities[kStepTime] = time;
  return row;
}

}  // namespace

TEST_CASE("the errors are those of the headline's rows that fit, each run once, rounded") {
  ValidatedTable table;
  table.name = "own";
  table.rows = {row_with({3, 7}), row_with({3, 7}), row_with({3, 7}),
                row_with({5, 4}), row_with({6, 4}), row_with({7, 4})};
  table.rows[0].without_framework[kStepTime] = PredictedAndMeasured{2, 4};
  table.rows[2].setting.ranks = 16;
  table.rows[3].apart = "not confirmed";
  table.rows[4].tensors_fit = false;
  table.rows[5].has_band = false;
  const std::vector<MeasuredError> errors = measured_errors_of({table});
  REQUIRE(errors.size() == 3);
  CHECK(errors[0].error == -0.5714);
  CHECK(errors[0].table == "own");
  CHECK(errors[0].quantity == "step_time_s");
  CHECK(errors[0].setting.software == "megatron");
  CHECK(errors[1].error == -0.5);
  CHECK(errors[1].setting.software == "none");
  CHECK(errors[1].setting.device == "a100");
  CHECK(errors[2].setting.ranks == 16);
}

TEST_CASE("texts differ first in a line") {
  CHECK(first_difference("a\nb\n", "a\nb\n").empty());
  CHECK(first_difference("a\nb\n", "a\nc\n") == "line 2 is \"b\" and would be \"c\"");
  CHECK(first_difference("a\n", "a\nc\n") == "line 2 is \"\" and would be \"c\"");
}

TEST_CASE("a file that was written holds, and fails when predictions or tables are others") {
  OwnTable own;
  // Another framework's predictions differ from those without one.
  own.edit_mapping("\"system\": \"dgx-a100\"",
                   "\"system\": {\"preset\": \"dgx-a100\", \"software\": \"megatron-lm-2021\"}");
  const std::string file = own.path("errors.txt");
  CHECK(shardsim(own.words({"--write-band", file, "--check-band", file})).exit_code == 0);
  const std::vector<MeasuredError> errors = parse_measured_errors(content_of(file), file).errors;
  REQUIRE(errors.size() == 10);  // Two times and three peaks, twice.
  std::vector<double> with;
  std::vector<double> without;
  for (const MeasuredError& error : errors) {
    CHECK(error.table == "small");
    CHECK(error.setting.device == "a100-sxm");
    CHECK(error.setting.ranks == 8);
    if (error.setting.software == "none") {
      without.push_back(error.error);
    } else {
      CHECK(error.setting.software == "megatron-lm-2021");
      with.push_back(error.error);
    }
  }
  REQUIRE(without.size() == 5);
  CHECK(without != with);
  own.edit_table("plain,10,", "plain,11,");
  const Printed other = shardsim(own.words({"--check-band", file}));
  CHECK(other.exit_code == 1);
  CHECK(contains(other.err, "is not what `shardsim validate --write-band` gives today: line "));
  CHECK(shardsim(own.words({"--check-band", own.path("none.txt")})).exit_code == 2);
}

TEST_CASE("rows whose like has no band are compared, and make none") {
  OwnTable own;
  own.edit_mapping("\"training\": {", "\"training\": {\"precision\": \"fp32\", ");
  const std::string file = own.path("errors.txt");
  const Printed printed = shardsim(own.words({"--write-band", file}));
  CHECK(printed.exit_code == 0);
  CHECK(contains(printed.out, "step time               2"));
  CHECK(parse_measured_errors(content_of(file), file).errors.empty());
}

TEST_CASE("bands are not made from some of the rows") {
  const OwnTable own;
  for (const char* part : {"--sample", "small"}) {
    const Printed printed = shardsim(own.words({part, "--write-band", own.path("errors.txt")}));
    CHECK(printed.exit_code == 2);
    CHECK(contains(printed.err, "E0933"));
  }
}

TEST_CASE("validate says how many rows bands hold, and how many without their own table") {
  const std::vector<std::string> words = {"validate", "korthikanti_end_to_end", "torchtitan"};
  const Printed text = shardsim(words);
  CHECK(text.exit_code == 0);
  CHECK(contains(text.out, "error bands (8 of 10)\n  step time "));
  CHECK(contains(text.out, " of 7 rows inside; without the row's own table: "));
  CHECK(contains(text.out, "in the mean of 2 tables "));
  std::vector<std::string> more = words;
  more.emplace_back("--json");
  const nlohmann::json bands =
      nlohmann::json::parse(shardsim(more).out).at("error_bands").at("step_time_s");
  CHECK(bands.at("rows") == 7);
  CHECK(bands.at("tables").at("torchtitan").at("rows") == 3);
  // One table tells nothing about another.
  CHECK_FALSE(contains(shardsim({"validate", "torchtitan"}).out, "error bands"));
}

}  // namespace shardsim::test
