#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "reports/csv_tables.hpp"
#include "reports/terminal_text.hpp"
#include "scenarios/source_text.hpp"
#include "sim/console/shell_word.hpp"

#include "tests/app/command_fixture.hpp"

// Names of files and scenarios were printed unchanged. In the log of a CI service a name could give
// commands. It could take over a terminal, and a spreadsheet could compute it.
namespace shardsim::test {
namespace {

namespace fs = std::filesystem;

const std::string kHostile =
    "::set-output name=a::\033]0;owned\a\n::error ::fake\u202e##[warning]x.json";

// Whether the output is only text, line by line, as a CI service reads it.
void require_harmless(const std::string& printed) {
  INFO(printed);
  std::istringstream lines(printed);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t start = line.find_first_not_of(" \t");
    CHECK((start == std::string::npos || line.compare(start, 2, "::") != 0));
    CHECK(line.find("##[") == std::string::npos);
    CHECK(line.find_first_of("\033\a\r") == std::string::npos);
    CHECK(line.find("\u202e") == std::string::npos);
  }
}

// Runs in the folder, so that file names need no folder before them.
Printed in(const TemporaryFolder& folder, const std::vector<std::string>& words) {
  const CurrentFolder here(folder.path());
  return shardsim(words);
}

}  // namespace

TEST_CASE("a file's name is text to a terminal and to a CI service, whatever it is") {
  const TemporaryFolder folder;
  // A file's name has no slash.
  fs::copy_file("scenarios/quickstart.json", folder / kHostile);
  fs::copy_file("scenarios/verify-gpt-pp4-1f1b.json", folder / "::pp4.json");
  write(folder / "::broken\n::error.json", "{\"model\": 3, \"\033[2J\": ##[x, ::y}");
  const std::vector<std::vector<std::string>> commands = {
      {"check", kHostile},
      {kHostile},
      {kHostile, "-q", "--set", "output.result=::r.json"},
      {kHostile, "--set", "output.result=\033[2J"},
      {"check", "::broken\n::error.json"},
      {"fix", "--dry-run", kHostile},
      {"check", "::none\033[2J.json"},
      {"schedule", "::pp4.json", "--set", "::a\n::b=3"},
      {"export", "nccl-tests", kHostile},
      {"export", "kineto", kHostile, "-o", "::none\n::x/a"},
      {"import", "hf", kHostile},
      {"init", "--from", kHostile, "-o", "::new\n::x.json"},
      {"diff", kHostile, kHostile},
      {"merge", "::none\033[2J"},
      {"plan", kHostile, "--gpus", "8", "--gpu", "::h\n::x"},
      {"collective", "all_reduce", "--system", kHostile},
      {"calibrate", kHostile, "--system", "::no\n::x"},
      {"validate", "::no\n::x"},
      {"explain", "::no\n::x"},
      {"::verb\n::x", "a"},
      {"run", "--::option\n::x"},
  };
  for (const std::vector<std::string>& words : commands) {
    INFO(words[0] << " " << words.back());
    const Printed printed = in(folder, words);
    CHECK(!(printed.out + printed.err).empty());
    require_harmless(printed.out);
    require_harmless(printed.err);
  }
}

TEST_CASE("a scenario's name is text to a terminal and to a CI service, whatever it is") {
  const TemporaryFolder folder;
  const std::string scenario = "scenarios/verify-gpt-tp4.json";
  // The reader refuses control characters in it (E0113).
  const std::string named = "name=::set-output name=a::b ##[warning]c";
  const Printed printed =
      shardsim({scenario, "--set", named, "--assumptions", "--out", folder.path(), "--set",
                "output.markdown=a.md", "--set", "output.report=a.html"});
  CHECK(contains(printed.out, "\\x3a:set-output name=a::b \\x23#[warning]c"));
  require_harmless(printed.out);
  require_harmless(printed.err);
  require_harmless(content_of(folder / "a.md"));
  const Printed script =
      shardsim({scenario, "--set", "name=</script><script>alert(1)</script>", "-q", "--out",
                folder.path(), "--set", "output.report=b.html", "--set", "output.markdown=b.md"});
  CHECK(!contains(content_of(folder / "b.html"), "<script>alert(1)"));
  CHECK(!contains(content_of(folder / "b.md"), "<script>"));
}

TEST_CASE("annotations are as many as there are problems, and hide what ends them") {
  const TemporaryFolder folder;
  write(folder / kHostile, "{\"model\": 3}");
  const Printed printed = in(folder, {"check", "--output-format=github", kHostile});
  std::istringstream lines(printed.out);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(line.starts_with("::error file=%3A%3Aset-output name=a%3A%3A\\x1b]0;owned\\x07%0A"));
    CHECK(line.find_first_of("\033\a") == std::string::npos);
  }
}

TEST_CASE("two functions make text harmless, in the same way") {
  for (const std::string text : {"a::b", "::a", " ::a", "a##[b", "\033[2J", "a\u202eb", "\u061c",
                                 "a\nb", "\xff", "a # b : c", "\U000E0041"}) {
    INFO(text);
    const bool plain = text == "a::b" || text == "a # b : c";
    CHECK((printable(text, kWholeText) == text) == plain);
    CHECK((escape_untrusted(text) == text) == plain);
  }
  CHECK(printable("::a", kWholeText) == "\\x3a:a");
  CHECK(escape_untrusted(" ::a##[b") == " \\x3a:a\\x23#[b");
}

TEST_CASE("a word of a command is read back by a shell, and is text to a terminal") {
  CHECK(shell_word("it's") == "'it'\\''s'");
  CHECK(shell_word("a\033[2J'\\b\n") == "$'a\\x1b[2J\\x27\\x5cb\\x0a'");
}

TEST_CASE("no cell of a table is computed by a spreadsheet") {
  CHECK(csv_cell("=cmd|' /C calc'!A0") == "'=cmd|' /C calc'!A0");
  CHECK(csv_cell("+1+2") == "'+1+2");
  CHECK(csv_cell("-a,b") == "\"'-a,b\"");
  CHECK(csv_cell("@SUM(1)") == "'@SUM(1)");
  CHECK(csv_cell("\t=1") == "'\t=1");
  for (const std::string text : {"", "a=b", "-1.5", "-2e9", "tp4 pp2", "a - b"}) {
    CHECK(csv_cell(text) == text);
  }
}

}  // namespace shardsim::test
