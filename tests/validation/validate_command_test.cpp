#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "scenarios/load.hpp"
#include "sim/accuracy/validated_table.hpp"
#include "sim/run/run.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/validation/own_table.hpp"

// `shardsim validate` as a user meets it.
namespace shardsim::test {
namespace {

using nlohmann::json;

json result_of(const OwnTable& own, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = own.words(more);
  words.emplace_back("--json");
  const Printed printed = shardsim(words);
  INFO(printed.err);
  REQUIRE(printed.exit_code == 0);
  return json::parse(printed.out);
}

}  // namespace

TEST_CASE("each row is predicted, apart or refused with the reason, and none is dropped") {
  const json table = result_of(OwnTable()).at("tables").at(0);
  const json& rows = table.at("rows");
  REQUIRE(rows.size() == 6);
  CHECK(rows[0].at("step_time_s").at("measured") == 0.01);
  CHECK(rows[0].at("peak_memory_bytes").at("measured") == 2e9);
  CHECK(rows[0].at("source") == "paper, table 1");
  CHECK_FALSE(rows[2].contains("step_time_s"));
  CHECK(rows[2].at("peak_memory_bytes").at("measured") == 4e9);
  // The loader's own words.
  CHECK(contains(rows[3].at("not_represented"), "E0203"));
  CHECK(rows[4].at("apart") == "not confirmed");
  CHECK(rows[4].at("step_time_s").at("measured") == 0.03);
  CHECK(rows[5].at("not_represented") == "odd is not built");
  CHECK(table.at("headline").at("step_time_s").at("rows") == 2);
  CHECK(table.at("headline").at("peak_memory_bytes").at("rows") == 3);
  CHECK(table.at("apart").at("step_time_s").at("rows") == 1);
}

TEST_CASE("rows have figures by the columns that the mapping names, beside those of all") {
  OwnTable own;
  own.edit_mapping(R"("label": ["gpus", "tp"],)",
                   R"("label": ["gpus", "tp"], "by": ["tp", "mode"],)");
  const json table = result_of(own).at("tables").at(0);
  const json& groups = table.at("groups");
  CHECK(groups.size() == 5);
  CHECK(groups.at("tp 1").at("step_time_s").at("rows") == 1);
  CHECK(groups.at("tp 1").at("step_time_s").at("bias") ==
        table.at("rows").at(1).at("step_time_s").at("error"));
  CHECK(groups.at("tp 2").at("step_time_s").at("rows") == 1);
  CHECK(groups.at("tp 2").at("peak_memory_bytes").at("rows") == 2);
  CHECK(groups.at("tp 3").empty());  // Refused.
  CHECK(groups.at("mode odd").empty());
  CHECK(groups.at("mode plain") == table.at("headline"));
  const Printed text = shardsim(own.words());
  CHECK(contains(text.out, "\n    tp 1                  1"));
  CHECK(contains(text.out, "\n    tp 2, peak memory     2"));
  own.edit_mapping("\"by\": [\"tp\",", "\"by\": [\"source\", \"tp\",");
  CHECK(contains(shardsim(own.words()).out, "\n    source paper, table 1     2"));
  CHECK_FALSE(contains(text.out, "tp 3  "));
  const TemporaryFolder folder;
  const std::string page = folder.path() + "/page.html";
  CHECK(shardsim(own.words({"--html", page})).exit_code == 0);
  CHECK(contains(content_of(page), "<td class=\"text\">tp 2</td>"));
  own.edit_mapping(R"("mode"],)", R"("moda"],)");
  const Printed wrong = shardsim(own.words());
  CHECK(wrong.exit_code == 2);
  CHECK(contains(wrong.err, "E0927"));
}

TEST_CASE("a prediction is what a run of that scenario says") {
  const json row = result_of(OwnTable()).at("tables").at(0).at("rows").at(1);
  const Scenario scenario = load_scenario_text(
      R"({"schema_version": 1, "model": {"family": "gpt2", "num_layers": 4, "hidden_size": 256,
          "num_attention_heads": 8, "vocab_size": 1024, "seq_len": 128},
          "system": {"preset": "dgx-a100", "ranks": 8},
          "training": {"micro_batch_size": 1, "global_batch_size": 16, "recompute": "full"}})",
      "same.json");
  const Result result = run_scenario(scenario).result;
  CHECK(row.at("step_time_s").at("predicted") == *result.number("step_time_s"));
  CHECK(row.at("peak_memory_bytes").at("predicted") == *result.number("memory.peak_bytes.max"));
  const double error = row.at("step_time_s").at("error");
  CHECK(error == *result.number("step_time_s") / 0.02 - 1.0);
}

TEST_CASE("the text has the figures, the worst row and every reason with its lines") {
  const Printed printed = shardsim(OwnTable().words());
  CHECK(printed.exit_code == 0);
  CHECK(contains(printed.out, "small: A small model, trust A"));
  CHECK(contains(printed.out, "step time               2"));
  CHECK(contains(printed.out, "step time *             1"));
  CHECK(contains(printed.out, "* not in the headline: not confirmed"));
  CHECK(contains(printed.out, "line 3: gpus 8, tp 1"));
  CHECK(contains(printed.out, "not represented, 1 row (line 7): odd is not built"));
  CHECK(contains(printed.out, "not represented, 1 row (line 5): "));
  CHECK(contains(printed.out, "2 of 6 rows are not represented"));
  // The same bytes again.
  CHECK(shardsim(OwnTable().words()).out == printed.out);
}

TEST_CASE("runs of lines are shortened") {
  CHECK(runs_text({2, 3, 4, 7, 9, 10}) == "2-4, 7, 9-10");
  CHECK(runs_text({5}) == "5");
}

TEST_CASE("a sample takes rows at the mapping's stride, from the first") {
  const json rows = result_of(OwnTable(), {"--sample"}).at("tables").at(0).at("rows");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].at("line") == 2);
  CHECK(rows[1].at("line") == 5);
}

TEST_CASE("a table is named, or its mapping is given as a path") {
  const OwnTable own;
  CHECK(result_of(own, {"small"}).at("tables").size() == 1);
  CHECK(shardsim({"validate", own.mapping()}).exit_code == 0);
  const Printed unknown = shardsim(own.words({"smal"}));
  CHECK(unknown.exit_code == 2);
  CHECK(contains(unknown.err, "error[E0920]: there is no table \"smal\""));
  CHECK(contains(unknown.err, "write \"small\""));
  const TemporaryFolder empty;
  const Printed none = shardsim({"validate", "--folder", empty.path()});
  CHECK(none.exit_code == 2);
  CHECK(contains(none.err, "E0931"));
}

TEST_CASE("wrong tables end with 2, file and line") {
  OwnTable few;
  few.edit_table("8,3,16,plain,20,4,", "8,3,16,20,4,");
  const Printed printed = shardsim(few.words());
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, "E0922"));
  CHECK(contains(printed.err, few.table() + ":5:"));
  OwnTable word;
  word.edit_table(",odd,", ",other,");
  CHECK(contains(shardsim(word.words()).err, "E0929"));
  word.edit_table("8,1,16,plain", "8,1,16,none");  // All unknown words are told at once.
  word.edit_table("8,3,16,plain", "8,3,16,none");
  const std::string unknown = shardsim(word.words()).err;
  CHECK(contains(unknown, "no word for \"none\" in column \"mode\", in this row and 1 more"));
  CHECK(contains(unknown, "no word for \"other\" in column \"mode\""));
  CHECK(contains(unknown, word.table() + ":3:"));
  CHECK(contains(unknown, word.table() + ":7:"));
  OwnTable confirmed;
  confirmed.edit_table("memory,no", "memory,perhaps");
  CHECK(contains(shardsim(confirmed.words()).err, "E0925"));
  OwnTable zero;
  zero.edit_table("plain,10,", "plain,0,");
  const Printed no_time = shardsim(zero.words());
  CHECK(no_time.exit_code == 2);
  CHECK(contains(no_time.err, zero.table() + ":2:"));
  OwnTable json_error;
  json_error.edit_mapping("\"trust\": \"A\",", "\"trust\": \"A\"");
  CHECK(shardsim(json_error.words({"--json"})).exit_code == 2);
}

TEST_CASE("the ratchet holds what was written and fails when a figure is worse") {
  OwnTable own;
  const Printed written = shardsim(own.words({"--write-ratchet", "--ratchet"}));
  CHECK(written.exit_code == 0);
  CHECK(shardsim(own.words({"--ratchet"})).exit_code == 0);
  // A sample has figures of its own.
  CHECK(shardsim(own.words({"--ratchet", "--sample"})).exit_code == 1);
  CHECK(shardsim(own.words({"--ratchet", "--write-ratchet", "--sample"})).exit_code == 0);
  CHECK(shardsim(own.words({"--ratchet"})).exit_code == 0);
  // Predictions are below: a longer measurement is farther away.
  own.edit_table("plain,10,", "plain,900,");
  const Printed worse = shardsim(own.words({"--ratchet"}));
  CHECK(worse.exit_code == 1);
  CHECK(contains(worse.err, "worse: small, step time: mean absolute error"));
}

TEST_CASE("the page stands alone and shows every row that is compared") {
  const OwnTable own;
  const Printed printed = shardsim(own.words({"--html", own.path("page.html")}));
  CHECK(printed.exit_code == 0);
  const std::string page = content_of(own.path("page.html"));
  std::size_t points = 0;
  for (std::size_t at = page.find("<circle"); at != std::string::npos;
       at = page.find("<circle", at + 1)) {
    ++points;
  }
  CHECK(points == 6);  // Three times, three peaks.
  CHECK(contains(page, "class=\"apart\""));
  CHECK(contains(page, "odd is not built"));
  for (const char* outside : {"http://", "https://", "src=", "@import", "url("}) {
    CHECK_FALSE(contains(page, outside));
  }
  CHECK(shardsim(own.words({"--html", own.path("no/such/folder.html")})).exit_code == 2);
}

TEST_CASE("every table that ships is whole: all rows of its file are accounted for") {
  const Printed printed = shardsim({"validate", "--json", "vtrain_single_node", "megatron_core_ci",
                                    "korthikanti_end_to_end", "zero_bubble"});
  REQUIRE(printed.exit_code == 0);
  const std::map<std::string, std::size_t> rows = {{"vtrain_single_node", 720},
                                                   {"megatron_core_ci", 96},
                                                   {"korthikanti_end_to_end", 4},
                                                   {"zero_bubble", 57}};
  const json document = json::parse(printed.out);
  for (const json& table : document.at("tables")) {
    INFO(table.at("name"));
    CHECK(table.at("rows").size() == rows.at(table.at("name")));
    for (const json& row : table.at("rows")) {
      CHECK((row.contains("not_represented") || row.contains("step_time_s") ||
             row.contains("peak_memory_bytes")));
    }
  }
}

}  // namespace shardsim::test
