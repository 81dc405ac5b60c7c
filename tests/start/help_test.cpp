#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/command/verbs.hpp"

#include "tests/app/command_fixture.hpp"

// Help for somebody who is new here: --help, --color and the formats of errors.
namespace shardsim::test {
namespace {

std::size_t place(const std::string& text, const std::string& part) {
  const std::size_t found = text.find(part);
  INFO("looking for " << part);
  REQUIRE(found != std::string::npos);
  return found;
}

}  // namespace

TEST_CASE("help begins with three examples, then usage, then verbs in groups, then options") {
  const std::string help = shardsim({"--help"}).out;
  CHECK(help.rfind("Examples:\n  shardsim demo", 0) == 0);
  const std::string examples = help.substr(0, place(help, "\n\n"));
  CHECK(std::count(examples.begin(), examples.end(), '\n') == 3);
  CHECK(place(help, "Usage:") < place(help, "\nBegin:\n"));
  CHECK(place(help, "\nBegin:\n") < place(help, "\nRun and check one scenario:\n"));
  CHECK(place(help, "\nShell and manual:\n") < place(help, "\nOptions:\n"));
  CHECK(place(help, "130 interrupted") > place(help, "\nOptions:\n"));
}

TEST_CASE("every verb has examples, and its help shows them") {
  for (const Verb& verb : all_verbs()) {
    INFO(verb.name);
    CHECK_FALSE(verb.examples.empty());
    const Printed printed = shardsim({verb.name, "--help"});
    CHECK(printed.exit_code == 0);
    CHECK(contains(printed.out, "\nExamples:\n"));
    for (const auto& [command, purpose] : verb.examples) {
      CHECK(contains(printed.out, "  " + command));
      CHECK(contains(printed.out, purpose));
      CHECK(contains(command, "shardsim " + (verb.name == "run" ? std::string() : verb.name)));
    }
  }
}

TEST_CASE("colors are asked for before or behind the verb") {
  const std::string plain = shardsim({kPlan}).out;
  CHECK(shardsim({kPlan, "--color=never"}).out == plain);
  CHECK(shardsim({"--color", "auto", "run", kPlan}).out == plain);
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{kPlan, "--color=always"},
        {"run", kPlan, "--color", "always"},
        {"--color=always", "run", kPlan}}) {
    const Printed printed = shardsim(arguments);
    CHECK(printed.exit_code == 0);
    CHECK(contains(printed.out, "\033["));
  }
  CHECK(contains(shardsim({kPlan, "--color=blue"}).err, "never"));
}

TEST_CASE("errors of a scenario become annotations beside its lines") {
  const TemporaryFolder folder;
  const std::string file = folder / "mine, 100%.json";
  write(file, "{\n  \"schema_version\": 1,\n  \"modle\": 7\n}\n");
  for (const char* verb : {"check", "run", "fix"}) {
    const Printed printed = shardsim({verb, "--output-format=github", file});
    INFO(printed.out);
    CHECK(printed.exit_code == 2);
    CHECK(contains(printed.out, fmt::format("::error file={}/mine%2C 100%25.json,line=3,col=3,"
                                            "title=E0107::unknown field \"modle\"",
                                            folder.path())));
    CHECK_FALSE(contains(printed.err, "error["));
  }
  CHECK(shardsim({"check", "--output-format=github", kPlan}).exit_code == 0);
  CHECK(contains(shardsim({"check", "--output-format=json", kPlan}).out, "\"errors\": []"));
}

TEST_CASE("what a run finds wrong becomes annotations of its scenario") {
  const std::string expectation =
      R"(expect=[{"metric":"mfu","op":">=","value":0.9},{"metric":"ranks","op":"==","value":64}])";
  const Printed failed = shardsim({kPlan, "--output-format", "github", "-q", "--set", expectation});
  CHECK(failed.exit_code == 1);
  CHECK(contains(failed.out, "::error file=" + kPlan + ",title=expect::mfu >= 0.9: 0."));
  CHECK_FALSE(contains(failed.out, "::ranks =="));

  const Printed large = shardsim({kPlan, "--output-format=github", "-q", "--set",
                                  "model.preset=llama3-70b", "--set", "parallelism.zero_stage=0"});
  CHECK(large.exit_code == 3);
  CHECK(contains(large.out, "::error file=" + kPlan + ",title=memory::"));

  const Printed fine = shardsim({kPlan, "--output-format=github", "-q"});
  CHECK(fine.exit_code == 0);
  CHECK(fine.out.empty());
}

TEST_CASE("assumptions are listed below their sources, those without one first") {
  const Printed printed = shardsim({kPlan, "--assumptions"});
  CHECK(printed.exit_code == 0);
  const std::string list = printed.out.substr(place(printed.out, "numbers and simplifications"));
  CHECK(place(list, "  assumed: ") < place(list, "  NVIDIA H100 datasheet (SXM):\n"));
  CHECK(contains(list, "    system.device.memory_bandwidth_gb_per_s\n"));
  std::size_t begin = 0;
  while (begin < list.size()) {
    const std::size_t end = list.find('\n', begin);
    CHECK(end - begin <= 100);
    begin = end + 1;
  }
  CHECK_FALSE(contains(shardsim({kPlan}).out, "numbers and simplifications"));
}

TEST_CASE("a preset is shown by its name, with or without show") {
  CHECK(shardsim({"presets", "show", "dgx-h100"}).out == shardsim({"presets", "dgx-h100"}).out);
  CHECK(contains(shardsim({"presets", "show"}).err, "there is no preset \"show\""));
  CHECK(contains(shardsim({"presets", "show", "gpt2", "gpt2-xl"}).err, "one word too many"));
}

}  // namespace shardsim::test
