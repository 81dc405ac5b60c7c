#include "sim/accuracy/missing_columns.hpp"

#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/app/command_fixture.hpp"
#include "tests/validation/own_table.hpp"

// Rows that more columns would unlock.
namespace shardsim::test {
namespace {

using Strings = std::vector<std::string>;

nlohmann::json unlocks(const OwnTable& own) {
  const Printed printed = shardsim(own.words({"--json"}));
  INFO(printed.err);
  REQUIRE(printed.exit_code == 0);
  return nlohmann::json::parse(printed.out).at("tables").at(0).at("would_unlock");
}

}  // namespace

TEST_CASE("needs that most rows have come first, and rows without any do not count") {
  ValidatedTable table;
  for (const Strings& needs : {Strings{"tp"}, Strings{"pp"}, Strings{}, Strings{"pp"}}) {
    ValidatedRow row;
    row.line = static_cast<int>(table.rows.size()) + 2;
    row.needs = needs;
    table.rows.push_back(row);
  }
  const std::vector<MissingColumns> found = missing_columns(table);
  REQUIRE(found.size() == 2);
  CHECK(found[0].needs == Strings{"pp"});
  CHECK(found[0].lines == std::vector<int>{3, 5});
  CHECK(found[1].lines == std::vector<int>{2});
  CHECK(missing_columns_text(table) == "  pp would unlock 2 rows\n  tp would unlock 1 row\n");
  CHECK(missing_columns_text({}).empty());
}

TEST_CASE("a user's table says which cells would unlock its rows, and which rows none would") {
  OwnTable own;
  CHECK(unlocks(own).empty());  // One row does not fit together, and one is not built.
  own.edit_mapping(R"("training.global_batch_size": {"column": "batch"},)",
                   R"("training.global_batch_size": {"column": "batch"},
                      "training.tokens_total": {"product": ["tp", "batch", 1000000]},)");
  own.edit_table("8,2,16,plain,10", "8,,16,plain,10");  // Needed twice, told once.
  own.edit_table("8,2,16,plain,,4", "8,,,plain,,");
  own.edit_table("8,2,16,odd,", "8,,16,odd,");
  const nlohmann::json found = unlocks(own);
  REQUIRE(found.size() == 2);
  CHECK(found[0].at("needs") == Strings{"tp"});
  CHECK(found[0].at("rows") == 1);
  CHECK(found[0].at("lines") == std::vector<int>{2});
  CHECK(found[1].at("needs") == Strings{"tp", "batch", "a measurement"});
  CHECK(found[1].at("lines") == std::vector<int>{4});
  const Printed text = shardsim(own.words());
  CHECK(contains(text.out, "  tp, batch, a measurement together would unlock 1 row\n"));
  CHECK(shardsim(own.words({"--html", own.path("page.html")})).exit_code == 0);
  CHECK(contains(content_of(own.path("page.html")), "<pre>  tp would unlock 1 row\n"));
}

TEST_CASE("a mapping names what a refused word needs") {
  OwnTable own;
  own.edit_mapping(R"({"cannot": "odd is not built"})",
                   R"({"cannot": "the table does not say", "needs": "chunks per stage"})");
  const nlohmann::json found = unlocks(own);
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("needs") == Strings{"chunks per stage"});
  CHECK(found[0].at("lines") == std::vector<int>{7});
  own.edit_mapping(R"("set": {"training.recompute": "full"}})",
                   R"("cannot": "unknown model", "needs": "heads"})");
  CHECK(unlocks(own)[0].at("needs") == Strings{"heads"});
  own.edit_mapping(R"("cannot": "unknown model", "needs")", R"("set": {}, "needs")");
  const Printed wrong = shardsim(own.words());
  CHECK(wrong.exit_code == 2);
  CHECK(contains(wrong.err, "\"needs\" stands beside \"cannot\""));
}

TEST_CASE("a field that the scenario lacks would unlock all rows but those that cannot be") {
  OwnTable own;
  own.edit_mapping(R"("num_layers": 4, )", "");  // In line 5, tp does not divide, either.
  const nlohmann::json found = unlocks(own);
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("needs") == Strings{"model.num_layers"});
  CHECK(found[0].at("lines") == std::vector<int>{2, 3, 4, 6});
}

TEST_CASE("unknown words of measured columns are told with all others") {
  OwnTable own;
  own.edit_mapping(R"({"product": ["time_ms"], "over": [1000]})",
                   R"({"column": "time_ms", "words": {"10": 0.01, "20": 0.02}})");
  own.edit_table(",odd,", ",other,");
  const Printed printed = shardsim(own.words());
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, "no word for \"30\" in column \"time_ms\", in this row and 1 more"));
  CHECK(contains(printed.err, "no word for \"other\" in column \"mode\""));
}

}  // namespace shardsim::test
