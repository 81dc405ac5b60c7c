#include <regex>
#include <sstream>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/command/verbs.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/golden/approved.hpp"

// Output for people and scripts, byte by byte. The plans also pin compilers and optimization levels
// to each other: nothing in them may depend on either.
namespace shardsim::test {
namespace {

std::string text_of(const std::string& scenario) {
  const Printed printed = shardsim({"scenarios/" + scenario + ".json"});
  REQUIRE(printed.exit_code == 0);
  return printed.out;
}

std::string metrics_of(const std::string& scenario) {
  const Printed printed = shardsim({"scenarios/" + scenario + ".json", "--json"});
  REQUIRE(printed.exit_code == 0);
  return nlohmann::ordered_json::parse(printed.out)["metrics"].dump(2) + "\n";
}

/// Without the sizes of rounding errors: their last bits are the compiler's.
std::string without_noise(const std::string& text) {
  std::istringstream lines(text);
  std::string kept;
  bool in_oracle = false;
  for (std::string line; std::getline(lines, line);) {
    const bool continues = line.rfind("    ", 0) == 0;
    in_oracle = line.rfind("  oracle ", 0) == 0 || (in_oracle && continues);
    if (!in_oracle) kept += line + "\n";
  }
  return kept;
}

}  // namespace

TEST_CASE("the summaries of both plans are as approved") {
  require_approved("quickstart.txt", text_of("quickstart"));
  require_approved("gpt2-xl-zero2-32xa100.txt", text_of("gpt2-xl-zero2-32xa100"));
}

TEST_CASE("the metrics of both plans are as approved, to the last digit") {
  require_approved("quickstart.metrics.json", metrics_of("quickstart"));
  require_approved("gpt2-xl-zero2-32xa100.metrics.json", metrics_of("gpt2-xl-zero2-32xa100"));
}

TEST_CASE("the summary of a verify run is as approved") {
  const std::string text = text_of("verify-gpt-zero2");
  CHECK(contains(text, "oracle        passed"));
  require_approved("verify-gpt-zero2.txt", without_noise(text));
}

// So that options cannot multiply unnoticed.
TEST_CASE("the help of every verb is as approved") {
  std::string text;
  for (const char* verb : {"", "demo", "init", "fix", "run", "calibrate", "check", "explain",
                           "presets", "schema", "validate", "completion", "man"}) {
    const Printed printed = *verb == '\0' ? shardsim({"--help"}) : shardsim({verb, "--help"});
    REQUIRE(printed.exit_code == 0);
    text += "$ shardsim " + std::string(verb) + (*verb == '\0' ? "" : " ") + "--help\n" +
            printed.out.substr(0, *verb == '\0' ? std::string::npos : printed.out.find("Examples"));
  }
  require_approved("help.txt", text);
}

// CLI11 keeps what an option excludes or needs in a set of pointers, and lists it in their order:
// with two of them the help depends on where memory was found.
TEST_CASE("no option names two others, whose order in the help would be that of addresses") {
  for (const Verb& verb : all_verbs()) {
    const std::string help = shardsim({verb.name, "--help"}).out;
    INFO(help);
    CHECK(help.size() > 100);
    CHECK_FALSE(std::regex_search(help, std::regex("(Excludes|Needs): \\S+ \\S")));
  }
}

}  // namespace shardsim::test
