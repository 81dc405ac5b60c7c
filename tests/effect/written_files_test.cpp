#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/app/command_fixture.hpp"
#include "tests/effect/settings.hpp"

// Fields of `output` change no result. Each asks for a file, which a run then writes.
namespace shardsim::test {
namespace {

// It has stages and experts, so that there is something for every table and page.
constexpr const char* kScenario = "tests/effect/experts.json";

// Endings that the loader wants, and that users choose.
std::string ending_of(const std::string& path) {
  if (path == "output.report") return ".html";
  if (path == "output.markdown") return ".md";
  if (path == "output.csv") return ".csv";
  if (path == "output.trace") return ".pftrace";
  return ".json";
}

// Runs with the fields set; returns the names of all files that it wrote.
std::vector<std::string> written(const TemporaryFolder& folder,
                                 const std::vector<std::string>& settings) {
  std::vector<std::string> words = {"run", "-q", kScenario, "--out", folder.path()};
  for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
  const Printed printed = shardsim(words);
  INFO(printed.err);
  CHECK(printed.exit_code == 0);
  return files_in(folder);
}

}  // namespace

TEST_CASE("each output of the schema is written") {
  int num_outputs = 0;
  for (const Field& field : field_table()) {
    if (!names_file(field)) continue;
    ++num_outputs;
    INFO(field.path);
    const TemporaryFolder folder;
    const std::string name = "out" + ending_of(field.path);
    std::vector<std::string> names = written(folder, {field.path + "=" + name});
    CHECK(std::count(names.begin(), names.end(), name) == 1);
    for (const std::string& file : names) CHECK_FALSE(content_of(folder / file).empty());
    if (field.path == "output.csv") {  // Its tables go beside it.
      const auto is_table = [](const std::string& file) {
        return file.starts_with("out.") && file.ends_with(".csv");
      };
      names.erase(std::remove_if(names.begin(), names.end(), is_table), names.end());
      names.push_back(name);
    }
    CHECK(names == std::vector<std::string>{name});
  }
  CHECK(num_outputs >= 5);
}

TEST_CASE("a run that is asked for no file writes none") {
  const TemporaryFolder folder;
  CHECK(written(folder, {}).empty());
}

TEST_CASE("trace_ranks chooses what the trace shows") {
  const auto trace_of = [](const std::string& ranks) {
    const TemporaryFolder folder;
    CHECK(written(folder, {"output.trace=out.json", "output.trace_ranks=" + ranks}).size() == 1);
    return content_of(folder / "out.json");
  };
  const std::string first = trace_of("[0]");
  CHECK(contains(first, "rank 0"));
  CHECK_FALSE(contains(first, "rank 9"));
  CHECK(contains(trace_of("[9]"), "rank 9"));
}

}  // namespace shardsim::test
