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

#include "scenarios/field.hpp"
#include "scenarios/json_value.hpp"
#include "scenarios/reading.hpp"

#include "tests/counted_new.hpp"
#include "tests/scenarios/support.hpp"
#include "tests/temporary_folder.hpp"

using namespace shardsim;
using namespace shardsim::testing;

// Files that mean harm or nonsense: each must end in an error with a place, fast. The file
// tests/scenarios/hostile/expected.txt lists them: name, exit code, code, line, column.
namespace {

constexpr std::int64_t kFixedBytes = 256 << 10;
constexpr const char* kFolder = "tests/scenarios/hostile/";

struct Outcome {
  int exit_code = 0;
  std::string code;
  int line = 0;
  int column = 0;
  double milliseconds = 0;
  std::int64_t peak_bytes = 0;
};

Outcome outcome_of(const std::string& path) {
  Outcome outcome;
  const test::PeakMemory peak;
  const std::clock_t start = std::clock();
  try {
    load_scenario(path);
  } catch (const ScenarioError& error) {
    const Problem& first = error.problems().front();
    outcome = {static_cast<int>(error.exit_code()), first.code, first.line, first.column};
    CHECK_FALSE(error.render_all().empty());
  }
  outcome.milliseconds = 1000.0 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  outcome.peak_bytes = peak.bytes();
  return outcome;
}

// The fastest of some runs: other work on the machine, and files read for the first time, only add.
Outcome outcome_of_repeated(const std::string& path) {
  Outcome fastest = outcome_of(path);
  for (int i = 0; i < 15; ++i) {
    const Outcome again = outcome_of(path);
    if (again.milliseconds < fastest.milliseconds) {
      fastest = again;
    }
  }
  return fastest;
}

std::string write(const test::TemporaryFolder& folder, const std::string& name,
                  const std::string& text) {
  std::ofstream(folder / name, std::ios::binary) << text;
  return folder / name;
}

std::string repeated(const std::string& text, std::size_t times) {
  std::string result;
  for (std::size_t i = 0; i < times; ++i) {
    result += text;
  }
  return result;
}

// Each takes less than 13 ms of processor time on a desk. Eight times that still catches a cost
// that grows faster than the text, and spares slow machines. Sanitizers make it ten to fourteen
// times as much.
#ifdef SHARDSIM_SANITIZED
constexpr double kBoundMilliseconds = 1000;
#else
constexpr double kBoundMilliseconds = 100;
#endif

// The memory that a text of some size may take at its peak. It is the text itself twice, its
// values, and the tables, the presets and the problems, which are the same for all.
std::int64_t bound_bytes(std::size_t text_bytes) {
  // Every other byte may be a value; those beyond the limit are refused. Lists grow by doubling,
  // and while one is copied both are there.
  const std::size_t values = std::min(text_bytes / 2, JsonLimits{}.max_nodes);
  return static_cast<std::int64_t>(2 * text_bytes + 3 * sizeof(JsonValue) * values) + kFixedBytes;
}

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
    const std::string path = kFolder + name + ".json";
    const Outcome got = outcome_of_repeated(path);
    CHECK(got.exit_code == wanted.exit_code);
    CHECK(got.code == wanted.code);
    CHECK(got.line == wanted.line);
    CHECK(got.column == wanted.column);
    CHECK(got.line > 0);
    CHECK(got.milliseconds < kBoundMilliseconds);
    CHECK(got.peak_bytes < bound_bytes(std::filesystem::file_size(path)));
    slowest = std::max(slowest, got.milliseconds);
  }
  CHECK(num_files == expected.size());
  std::cout << num_files << " hostile files; the slowest took " << slowest << " ms\n";
}

TEST_CASE("bombs made of size end in an error, fast") {
  const test::TemporaryFolder folder;
  const std::string valid = valid_text();
  const std::string open = "{\"schema_version\": 1, \"name\": ";
  // Each as long as a limit allows, or a little longer than it may be.
  const JsonLimits limits;
  const std::size_t rest = limits.max_bytes - 2 * valid.size();
  const std::string many_equal = repeated("\"k\":1,", limits.max_members - 1);
  std::string many_keys;
  for (std::size_t i = 0; i + 1 < limits.max_members; ++i) {
    many_keys += "\"k" + std::to_string(i * 7919 % 10007) + "\":1,";  // In no order.
  }
  const std::string object = "{" + many_keys + "\"end\":1}";
  const std::string many_objects =
      repeated(object + ",", limits.max_nodes / (limits.max_members + 1) - 1);
  const std::string many_items = repeated(",1", limits.max_nodes - 10);
  const std::map<std::string, std::string> bombs = {
      {"a million brackets", open + std::string(1000000, '[')},
      {"a million objects", std::string(1000000, '{')},
      {"zeros", open + "[" + std::string(rest, '0')},
      {"elements", open + "[1" + repeated(",1", rest / 2)},
      {"text", open + "\"" + std::string(rest, 'x') + "\"}"},
      {"digits", open + std::string(rest, '9') + "}"},
      {"space", valid + std::string(rest, ' ') + "x"},
      {"lines", valid + std::string(rest, '\n') + "x"},
      {"a comment", valid + "/*" + std::string(rest, '*')},
      {"comments", valid + repeated("/**/", rest / 4) + "x"},
      {"seventeen megabytes", std::string(17 << 20, ' ')},
      {"keys", object},
      {"keys beyond the limit", "{" + repeated(many_keys, 30) + "\"end\":1}"},
      {"objects of many keys", "{\"expect\": [" + many_objects + "{}]}"},
      {"equal keys", "{" + many_equal + "\"k\":1}"},
      {"ranks", "{\"output\": {\"trace_ranks\": [1" + many_items + "]}}"},
      {"bad expectations", "{\"expect\": [1" + many_items + "]}"},
      {"deep long keys",
       repeated("{\"" + std::string(4000, 'k') + "\":", 30) + "1" + std::string(30, '}')},
  };
  double slowest = 0;
  std::string slowest_name;
  for (const auto& [name, text] : bombs) {
    INFO(name);
    const Outcome outcome = outcome_of_repeated(write(folder, "bomb.json", text));
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.milliseconds < kBoundMilliseconds);
    CHECK(outcome.peak_bytes < bound_bytes(text.size()));
    if (outcome.milliseconds > slowest) {
      slowest = outcome.milliseconds;
      slowest_name = name;
    }
  }
  std::cout << bombs.size() << " bombs; the slowest, " << slowest_name << ", took " << slowest
            << " ms\n";
}

// Ranks, layers, batches: numbers that the loader reads and multiplies and never makes room for.
TEST_CASE("no count of a scenario takes memory, however large it is") {
  const std::string text = valid_text();
  const auto peak_with = [&text](const std::vector<std::string>& overrides) {
    const test::PeakMemory peak;
    try {
      load_scenario_text(text, "test.json", overrides);
    } catch (const ScenarioError& error) {
      CHECK_FALSE(error.problems().empty());
    }
    return peak.bytes();
  };
  std::vector<std::string> all;
  std::size_t num_counts = 0;
  std::int64_t most = 0;
  for (const Field& field : field_table()) {
    if (field.type != FieldType::integer || is_item_field(field)) {
      continue;
    }
    ++num_counts;
    const std::string largest = number_text(field.limits.max);
    for (const std::string& count : {largest, std::string("1000000000000")}) {
      INFO(field.path << " = " << count);
      const std::int64_t peak = peak_with({field.path + "=" + count});
      CHECK(peak < bound_bytes(text.size()));
      most = std::max(most, peak);
    }
    all.push_back(field.path + "=" + largest);
  }
  CHECK(num_counts > 30);
  CHECK(peak_with(all) < bound_bytes(text.size()));
  std::cout << num_counts << " counts; the one that took most took " << most << " bytes\n";
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
