#include <string>

#include <catch2/catch.hpp>

#include "scenarios/scenario_error.hpp"
#include "sim/accuracy/measurement_table.hpp"

namespace shardsim::test {
namespace {

const MeasurementTable& table() {
  static const MeasurementTable kTable =
      parse_measurement_table("gpus,tp,mode,ms,odd\n64,8,full,1500,x\n,0,half,12.5,\n", "t.csv");
  return kTable;
}

RowFactor column(const std::string& name) { return {table().find_column(name), 1.0}; }
RowFactor number(double value) { return {std::nullopt, value}; }

RowConversion product(std::vector<RowFactor> factors, std::vector<RowFactor> over = {}) {
  RowConversion conversion;
  conversion.is_product = true;
  conversion.product = std::move(factors);
  conversion.over = std::move(over);
  return conversion;
}

RowConversion of_column(const std::string& name) {
  RowConversion conversion;
  conversion.product = {column(name)};
  return conversion;
}

RowValue converted(const RowConversion& conversion, std::size_t row = 0) {
  return convert(conversion, table(), table().rows[row]);
}

Problem problem_of(const RowConversion& conversion, std::size_t row = 0) {
  try {
    converted(conversion, row);
  } catch (const ScenarioError& error) {
    return error.problems().front();
  }
  FAIL("nothing is wrong");
  return {};
}

}  // namespace

TEST_CASE("a column is taken as it stands") {
  CHECK(converted(of_column("mode")).text == "full");
  CHECK(converted(of_column("gpus")).text == "64");
}

TEST_CASE("products and quotients; whole results have no point") {
  CHECK(converted(product({column("ms")}, {number(1000)})).text == "1.5");
  CHECK(converted(product({column("gpus"), number(2)}, {column("tp")})).text == "16");
  CHECK(converted(product({column("gpus")}, {column("tp"), number(3)})).text ==
        "2.6666666666666665");
  CHECK(converted(product({number(3000000000.0), number(4)})).text == "12000000000");
}

TEST_CASE("words, among them those that leave a field out or refuse a row") {
  RowConversion words = of_column("mode");
  words.words["full"] = {RowValue::Kind::refused, "not built"};
  words.words["half"] = {RowValue::Kind::left_out, ""};
  CHECK(converted(words).kind == RowValue::Kind::refused);
  CHECK(converted(words).text == "not built");
  CHECK(converted(words, 1).kind == RowValue::Kind::left_out);
}

TEST_CASE("an empty cell refuses the row, or is what the mapping says") {
  RowConversion conversion = product({column("gpus")});
  CHECK(converted(conversion, 1).kind == RowValue::Kind::refused);
  CHECK(converted(conversion, 1).text == "column \"gpus\" is empty");
  conversion.empty = RowValue{RowValue::Kind::given, "8"};
  CHECK(converted(conversion, 1).text == "8");
  CHECK(converted(product({number(1)}, {column("gpus")}), 1).text == "column \"gpus\" is empty");
}

TEST_CASE("a cell that is no number, a division by 0 and an unknown word have their place") {
  const Problem text = problem_of(product({column("odd")}));
  CHECK(text.code == "E0924");
  CHECK(text.line == 2);
  CHECK(text.column == 16);
  CHECK(text.message == "column \"odd\" must hold a number, not \"x\"");
  const Problem zero = problem_of(product({number(1)}, {column("tp")}), 1);
  CHECK(zero.code == "E0924");
  CHECK(zero.line == 3);
  RowConversion words = of_column("mode");
  words.words["half"] = {RowValue::Kind::left_out, ""};
  const Problem word = problem_of(words);
  CHECK(word.code == "E0929");
  CHECK(word.line == 2);
  CHECK(word.message == "the mapping has no word for \"full\" in column \"mode\"");
}

}  // namespace shardsim::test
