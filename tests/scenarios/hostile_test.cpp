#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include <catch2/catch.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/scenarios/support.hpp"
#include "tests/temporary_folder.hpp"

using namespace shardsim;
using namespace shardsim::testing;

// Files that mean harm or nonsense: each must end in an error with a place, fast. What is expected
// of each stands in tests/scenarios/hostile/expected.txt: name, exit code, code, line, column.
namespace {

constexpr const char* kFolder = "tests/scenarios/hostile/";

struct Outcome {
  int exit_code = 0;
  std::string code;
  int line = 0;
  int column = 0;
  double milliseconds = 0;
};

Outcome outcome_of(const std::string& path) {
  Outcome outcome;
  const std::clock_t start = std::clock();
  try {
    load_scenario(path);
  } catch (const ScenarioError& error) {
    const Problem& first = error.problems().front();
    outcome = {static_cast<int>(error.exit_code()), first.code, first.line, first.column, 0};
    CHECK_FALSE(error.render_all().empty());
  }
  outcome.milliseconds = 1000.0 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  return outcome;
}

std::string write(const test::TemporaryFolder& folder, const std::string& name,
                  const std::string& text) {
  std::ofstream(folder / name, std::ios::binary) << text;
  return folder / name;
}

// The bound is loose, so that a busy machine fails no test; the worst figure is printed.
constexpr double kBoundMilliseconds = 1000;

}  // namespace

TEST_CASE("every hostile file ends in the expected error at the expected place") {
  std::map<std::string, Outcome> expected;
  std::istringstream manifest(content_of(std::string(kFolder) + "expected.txt"));
  for (std::string line; std::getline(manifest, line);) {
    std::istringstream words(line);
    std::string name;
    Outcome o;
    words >> name >> o.exit_code >> o.code >> o.line >> o.column;
    REQUIRE(words);
    expected[name] = o;
  }
  REQUIRE(expected.size() >= 45);
  double slowest = 0;
  std::size_t num_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".json") {
      continue;
    }
    ++num_files;
    const std::string name = entry.path().stem().string();
    INFO(name);
    REQUIRE(expected.count(name) == 1);
    const Outcome wanted = expected[name];
    const Outcome got = outcome_of(kFolder + name + ".json");
    CHECK(got.exit_code == wanted.exit_code);
    CHECK(got.code == wanted.code);
    CHECK(got.line == wanted.line);
    CHECK(got.column == wanted.column);
    CHECK(got.line > 0);
    CHECK(got.milliseconds < kBoundMilliseconds);
    slowest = std::max(slowest, got.milliseconds);
  }
  CHECK(num_files == expected.size());
  std::cout << num_files << " hostile files; the slowest took " << slowest << " ms\n";
}

TEST_CASE("bombs made of size end in an error, fast") {
  const test::TemporaryFolder folder;
  const std::string valid = valid_text();
  const std::string open = "{\"schema_version\": 1, \"name\": ";
  std::string many_keys = "{";
  std::string many_equal = "{";
  for (int i = 0; i < 30000; ++i) {
    many_keys += "\"k" + std::to_string(i) + "\":1,";
    many_equal += "\"k\":1,";
  }
  std::string deep_keys;
  for (int i = 0; i < 30; ++i) {
    deep_keys += "{\"" + std::string(4000, 'k') + "\":";
  }
  const std::map<std::string, std::string> bombs = {
      {"a million brackets", open + std::string(1000000, '[')},
      {"a million objects", std::string(1000000, '{')},
      {"two million zeros", open + "[" + std::string(2000000, '0')},
      {"two million elements", open + "[1" +
                                   [] {
                                     std::string list;
                                     for (int i = 0; i < 1000000; ++i) {
                                       list += ",1";
                                     }
                                     return list;
                                   }()},
      {"three megabytes of text", open + "\"" + std::string(3000000, 'x') + "\"}"},
      {"three megabytes of digits", open + std::string(3000000, '9') + "}"},
      {"three megabytes of space", valid + std::string(3000000, ' ') + "x"},
      {"three megabytes of comment", valid + "/*" + std::string(3000000, '*')},
      {"seventeen megabytes", std::string(17 << 20, ' ')},
      {"thirty thousand keys", many_keys + "\"end\":1}"},
      {"thirty thousand equal keys", many_equal + "\"k\":1}"},
      {"deep long keys", deep_keys + "1" + std::string(30, '}')},
  };
  double slowest = 0;
  std::string slowest_name;
  for (const auto& [name, text] : bombs) {
    INFO(name);
    const Outcome outcome = outcome_of(write(folder, "bomb.json", text));
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.milliseconds < kBoundMilliseconds);
    if (outcome.milliseconds > slowest) {
      slowest = outcome.milliseconds;
      slowest_name = name;
    }
  }
  std::cout << bombs.size() << " bombs; the slowest, " << slowest_name << ", took " << slowest
            << " ms\n";
}

TEST_CASE("what is not a readable regular file is an error and never a wait") {
  const test::TemporaryFolder folder;
  CHECK(outcome_of(folder / "missing.json").code == "E0001");
  CHECK(outcome_of(folder / "").code == "E0001");
  CHECK(outcome_of("").code == "E0001");
  CHECK(outcome_of(std::string("a\0b", 3)).code == "E0001");
  CHECK(outcome_of("/dev/zero").code == "E0001");
  const std::string pipe = folder / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(outcome_of(pipe).code == "E0001");
  const std::string loop = folder / "loop.json";
  std::filesystem::create_symlink(loop, loop);
  CHECK(outcome_of(loop).code == "E0001");
  CHECK(outcome_of(folder / std::string(5000, 'n')).code == "E0001");
}
