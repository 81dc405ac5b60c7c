#include "sim/accuracy/measurement_table.hpp"

#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/scenario_error.hpp"

#include "tests/temporary_folder.hpp"

namespace shardsim::test {
namespace {

using Cells = std::vector<std::string>;

MeasurementTable table_of(const std::string& text) {
  return parse_measurement_table(text, "t.csv");
}

Problem problem_of(const std::string& text) {
  try {
    table_of(text);
  } catch (const ScenarioError& error) {
    REQUIRE(error.problems().size() == 1);
    CHECK(error.exit_code() == ExitCode::bad_usage);
    CHECK_FALSE(error.problems()[0].help.empty());
    return error.problems()[0];
  }
  FAIL("nothing is wrong with " << text);
  return {};
}

}  // namespace

TEST_CASE("cells, quotes, commas and line ends within them, empty cells and empty lines") {
  const MeasurementTable table =
      table_of("a,b,c\r\n1,\"x, y\",\r\n\r\n\"he said \"\"no\"\"\",\"two\nlines\",3\n4,5,6");
  CHECK(table.columns == Cells{"a", "b", "c"});
  REQUIRE(table.rows.size() == 3);
  CHECK(table.rows[0].cells == Cells{"1", "x, y", ""});
  CHECK(table.rows[0].line == 2);
  CHECK(table.rows[1].cells == Cells{"he said \"no\"", "two\nlines", "3"});
  CHECK(table.rows[1].line == 4);
  CHECK(table.rows[2].cells == Cells{"4", "5", "6"});
  CHECK(table.rows[2].line == 6);  // After a cell of two lines.
  CHECK(table.find_column("b") == 1);
  CHECK(table.find_column("d") == MeasurementTable::kNoColumn);
}

TEST_CASE("a byte order mark is no part of the first name") {
  CHECK(table_of("\xEF\xBB\xBF"
                 "a\n1\n")
            .columns == Cells{"a"});
}

TEST_CASE("a wrong table is told with line and column") {
  const Problem open = problem_of("a,b\n1,2\n3,\"4\n5,6\n");
  CHECK(open.code == "E0921");
  CHECK(open.file == "t.csv");
  CHECK(open.line == 3);
  CHECK(open.column == 3);
  CHECK(problem_of("a,b\n1,x\"y\"\n").code == "E0921");
  const Problem after = problem_of("a,b\n\"1\"2,3\n");
  CHECK(after.code == "E0921");
  CHECK(after.line == 2);
  CHECK(after.column == 4);

  const Problem few = problem_of("a,b\n1,2\n3\n");
  CHECK(few.code == "E0922");
  CHECK(few.line == 3);
  CHECK(few.message == "this row has 1 cells, the header names 2 columns");
  CHECK(problem_of("a,b\n1,2,3\n").code == "E0922");

  CHECK(problem_of("").code == "E0923");
  CHECK(problem_of("a,,c\n").message == "column 2 has no name");
  const Problem twice = problem_of("a,b,a\n1,2,3\n");
  CHECK(twice.message == "two columns are called \"a\"");
  CHECK(twice.line == 1);
  CHECK(twice.column == 5);
}

TEST_CASE("a file that is not there is told by its name") {
  const TemporaryFolder folder;
  try {
    static_cast<void>(read_measurement_table(folder / "none.csv"));
    FAIL("it was read");
  } catch (const ScenarioError& error) {
    CHECK(error.problems()[0].file == folder / "none.csv");
  }
  std::ofstream(folder / "one.csv") << "a\n1\n";
  CHECK(read_measurement_table(folder / "one.csv").rows.size() == 1);
}

}  // namespace shardsim::test
