#include "sim/harness/codes.hpp"

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/command/error_table.hpp"
#include "sim/command/verbs.hpp"

#include "tests/app/command_fixture.hpp"

// `shardsim explain` knows every code that a report can have, and no other.
namespace shardsim::test {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kShortest = 4;

// Collects words that are written like codes, from a source that makes diagnoses. Environment
// variables and codes of errors are written so, too.
void collect_codes(const std::string& text, std::set<std::string>& codes) {
  if (!contains(text, "iagnosis")) return;
  static const std::regex kCode(R"re("([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*)")re");
  for (std::sregex_iterator match(text.begin(), text.end(), kCode), end; match != end; ++match) {
    const std::string word = (*match)[1];
    if (word.size() < kShortest || word.starts_with("SHARDSIM_")) continue;
    if (word == "SOURCE_DATE_EPOCH") continue;  // The rule of reproducible builds.
    if (error_family(word) != nullptr) continue;
    codes.insert(word);
  }
}

std::set<std::string> codes_of_sources() {
  std::set<std::string> codes;
  for (const char* const folder : {"backends", "strategies", "sim"}) {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      const std::string path = entry.path().string();
      const bool is_source = path.ends_with(".cpp") || path.ends_with(".hpp");
      if (!is_source || path == "sim/harness/codes.cpp") continue;
      collect_codes(content_of(path), codes);
    }
  }
  return codes;
}

std::set<std::string> codes_of_table() {
  std::set<std::string> codes;
  for (const CodeEntry& entry : all_codes()) codes.insert(entry.code);
  return codes;
}

std::string listed(const std::set<std::string>& codes) {
  std::string text;
  for (const std::string& code : codes) text += code + " ";
  return text;
}

std::set<std::string> minus(std::set<std::string> from, const std::set<std::string>& what) {
  for (const std::string& code : what) from.erase(code);
  return from;
}

}  // namespace

TEST_CASE("every code that sources can report is explained, and each once") {
  const std::set<std::string> table = codes_of_table();
  const std::set<std::string> sources = codes_of_sources();
  CHECK(table.size() == all_codes().size());
  CHECK(listed(minus(sources, table)) == std::string());
  CHECK(listed(minus(table, sources)) == std::string());
}

TEST_CASE("explain says what a code means, with causes, fix and example") {
  for (const CodeEntry& entry : all_codes()) {
    const Printed printed = shardsim({"explain", entry.code});
    INFO(printed.out);
    CHECK(printed.exit_code == 0);
    for (const char* part : {entry.code, entry.meaning, entry.causes, entry.fix, entry.example}) {
      CHECK(contains(printed.out, part));
    }
  }
}

TEST_CASE("explain takes several codes in any case, and lists all without one") {
  const Printed two = shardsim({"explain", "buf_write", "DEADLOCK"});
  CHECK(two.exit_code == 0);
  CHECK(two.out.find("BUF_WRITE: ") == 0);
  CHECK(contains(two.out, "\nDEADLOCK: "));
  const Printed all = shardsim({"explain"});
  CHECK(all.exit_code == 0);
  CHECK(std::count(all.out.begin(), all.out.end(), '\n') ==
        static_cast<std::ptrdiff_t>(all_codes().size() + error_table().size()));
  CHECK(contains(all.out, find_code("BUFFER_HAZARD")->meaning));
}

TEST_CASE("explain prints JSON") {
  const nlohmann::json all = nlohmann::json::parse(shardsim({"explain", "--json"}).out)["codes"];
  CHECK(all.size() == all_codes().size() + error_table().size());
  const nlohmann::json one =
      nlohmann::json::parse(shardsim({"explain", "A2A_SPLIT", "--json"}).out)["codes"];
  REQUIRE(one.size() == 1);
  CHECK(one[0]["code"] == "A2A_SPLIT");
  CHECK(one[0]["fix"] == find_code("A2A_SPLIT")->fix);
}

TEST_CASE("explain refuses what is no code, with the nearest one") {
  const Printed slip = shardsim({"explain", "DEADLOK"});
  CHECK(slip.exit_code == 2);
  CHECK(contains(slip.err, "E1205"));
  CHECK(contains(slip.err, "did you mean DEADLOCK?"));
  CHECK(shardsim({"explain", "E9999"}).exit_code == 2);
  CHECK(shardsim({"explain", "E02"}).exit_code == 2);
}

TEST_CASE("explain says what an error is about, how to mend it, and a command that shows it") {
  for (const ErrorEntry& entry : error_table()) {
    const Printed printed = shardsim({"explain", std::string(entry.code)});
    INFO(printed.out);
    CHECK(printed.exit_code == 0);
    for (const std::string_view part : {entry.code, entry.meaning, entry.fix, entry.example}) {
      CHECK(contains(printed.out, std::string(part)));
    }
    CHECK(contains(printed.out, error_family(entry.code)));
  }
  const std::string known = shardsim({"explain", "E0203"}).out;
  CHECK(contains(known, "settings of a scenario that do not go together"));
  CHECK(contains(known, "(scenario.json is what \"shardsim init\" writes)"));
}

}  // namespace shardsim::test
