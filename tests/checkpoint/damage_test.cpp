#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/checkpoint/names.hpp"

#include "tests/checkpoint/memory_file_system.hpp"
#include "tests/checkpoint/sample_state.hpp"

// Every damage that can be done to the newer of two checkpoints is found, and the older one loads.
namespace shardsim::test {
namespace {

const std::string kOld = "/run/step-00000001/";
const std::string kNew = "/run/step-00000002/";

std::unique_ptr<MemoryFileSystem> two_checkpoints() {
  auto files = std::make_unique<MemoryFileSystem>();
  for (const std::int64_t step : {1, 2}) {
    const SampleState state = make_sample(step);
    REQUIRE(save(*files, {"/run", step}, state.ranks, state.scalars).ok());
  }
  return files;
}

std::vector<std::string> files_below(const MemoryFileSystem& files, const std::string& folder) {
  std::vector<std::string> paths;
  for (const std::string& path : files.all_files()) {
    if (path.starts_with(folder)) paths.push_back(path);
  }
  return paths;
}

bool is_manifest(const std::string& path) { return path.ends_with(kManifestName); }

// The result of reading all of step 2.
CheckpointProblem problem_of_new(MemoryFileSystem& files) {
  try {
    CheckpointReader reader(files, {"/run", 2});
    reader.verify();
    return CheckpointProblem::none;
  } catch (const CheckpointError& error) {
    CHECK(std::string(error.what()).find(kNew) != std::string::npos);
    return error.problem();
  }
}

// One check for each of thousands of cases, so that they take no time.
bool falls_back(MemoryFileSystem& files, std::size_t num_skipped = 1) {
  LatestCheckpoint latest = find_latest(files, "/run");
  return latest.skipped.size() == num_skipped && latest.reader.step() == 1 &&
         holds(latest.reader, make_sample(1)) &&
         std::all_of(latest.skipped.begin(), latest.skipped.end(),
                     [](const auto& skipped) { return skipped.step == 2; });
}

TEST_CASE("a flipped bit anywhere is found") {
  const auto files = two_checkpoints();
  int flips = 0;
  for (const std::string& path : files_below(*files, kNew)) {
    const std::string whole = files->read_file(path);
    for (std::size_t at = 0; at < whole.size(); ++at) {
      for (unsigned bit = 0; bit < 8; ++bit) {
        std::string text = whole;
        text[at] = static_cast<char>(static_cast<unsigned char>(text[at]) ^ (1U << bit));
        files->write_file(path, text);
        INFO(path << " byte " << at << " bit " << bit);
        if (problem_of_new(*files) != CheckpointProblem::damaged) FAIL("not found");
        if (bit == 0 && !falls_back(*files)) FAIL("no way back");
        ++flips;
      }
    }
    files->write_file(path, whole);
  }
  CHECK(flips > 8 * 1500);
  CHECK(problem_of_new(*files) == CheckpointProblem::none);
}

TEST_CASE("a file cut short at any length, or with bytes after its end, is found") {
  const auto files = two_checkpoints();
  for (const std::string& path : files_below(*files, kNew)) {
    const std::string whole = files->read_file(path);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      for (const bool zeros_instead : {false, true}) {
        std::string text = whole.substr(0, length);
        if (zeros_instead) text.resize(whole.size(), '\0');
        if (text == whole) continue;  // Its last bytes are zeros.
        files->write_file(path, text);
        INFO(path << " after byte " << length << (zeros_instead ? " zeros" : " nothing"));
        if (problem_of_new(*files) != CheckpointProblem::damaged) FAIL("not found");
        if (!falls_back(*files)) FAIL("no way back");
      }
    }
    for (const char* more : {"\n", " ", "x", "\0"}) {
      files->write_file(path, whole + *more);
      CHECK(problem_of_new(*files) == CheckpointProblem::damaged);
      CHECK(falls_back(*files));
    }
    files->write_file(path, whole);
  }
}

TEST_CASE("a file of another size is found without reading it") {
  const auto whole = two_checkpoints();
  for (const std::string& path : files_below(*whole, kNew)) {
    if (is_manifest(path)) continue;
    for (const std::string& text : {whole->read_file(path) + "x", std::string()}) {
      const auto files = whole->copy();
      files->write_file(path, text);
      CheckpointReader reader(*files, {"/run", 2});
      CHECK_THROWS_AS(reader.find_files(), CheckpointError);
    }
  }
}

TEST_CASE("a missing file is found; without its manifest a checkpoint does not exist") {
  const auto whole = two_checkpoints();
  for (const std::string& path : files_below(*whole, kNew)) {
    INFO(path);
    const auto files = whole->copy();
    files->remove(path);
    if (is_manifest(path)) {
      CHECK(problem_of_new(*files) == CheckpointProblem::not_found);
      CHECK(falls_back(*files, 0));
    } else {
      CHECK(problem_of_new(*files) == CheckpointProblem::missing_file);
      CHECK(falls_back(*files));
    }
  }
}

TEST_CASE("files of one checkpoint do not pass for those of another") {
  const auto whole = two_checkpoints();
  const auto old_paths = files_below(*whole, kOld);
  const auto new_paths = files_below(*whole, kNew);
  for (const std::string& from : old_paths) {
    for (const std::string& to : new_paths) {
      INFO(from << " as " << to);
      const auto files = whole->copy();
      files->write_file(to, whole->read_file(from));
      // Another kind of file is foreign where a manifest should be, and only damage elsewhere.
      const bool foreign = is_manifest(to) && !is_manifest(from);
      CHECK(problem_of_new(*files) ==
            (foreign ? CheckpointProblem::foreign : CheckpointProblem::damaged));
      CHECK(falls_back(*files));
    }
  }
}

TEST_CASE("ranks cannot change places") {
  const auto files = two_checkpoints();
  const auto paths = files_below(*files, kNew);
  REQUIRE(paths.size() == 4);
  const std::string first = files->read_file(paths[1]);
  files->write_file(paths[1], files->read_file(paths[2]));
  files->write_file(paths[2], first);
  CHECK(problem_of_new(*files) == CheckpointProblem::damaged);
  CHECK(falls_back(*files));
}

TEST_CASE("a foreign manifest is called foreign") {
  const auto files = two_checkpoints();
  const std::string ours = files->read_file(kNew + "manifest.json");
  for (const std::string& text :
       {std::string("{}"), std::string("{\"metadata\": {}, \"weight_map\": {}}\n"),
        std::string("\x80\x02}q\0.", 6), std::string("PK\3\4"),
        " " + ours.substr(0, ours.size() - 1)}) {
    files->write_file(kNew + "manifest.json", text);
    CHECK(problem_of_new(*files) == CheckpointProblem::foreign);
    CHECK(falls_back(*files));
  }
}

TEST_CASE("a folder in the place of a file is an error, too") {
  const auto whole = two_checkpoints();
  for (const std::string& path : files_below(*whole, kNew)) {
    const auto files = whole->copy();
    files->remove(path);
    files->make_folder(path);
    CHECK(problem_of_new(*files) == CheckpointProblem::io_error);
    CHECK(falls_back(*files));
  }
}

TEST_CASE("a medium that cannot be read is an I/O error") {
  const auto files = two_checkpoints();
  for (std::int64_t call = 1; call < 20; ++call) {
    files->fail_at = files->calls + call;
    files->fail_with = EIO;
    const CheckpointProblem problem = problem_of_new(*files);
    if (files->calls < files->fail_at) break;  // Fewer calls than that.
    INFO("call " << call);
    CHECK(problem == CheckpointProblem::io_error);
  }
  files->fail_at = files->calls + 1;
  files->fail_with = EACCES;
  CHECK(problem_of_new(*files) == CheckpointProblem::permission);
}

TEST_CASE("where there is nothing, nothing is found") {
  MemoryFileSystem files;
  const auto code = [&](const std::string& directory) {
    try {
      static_cast<void>(find_latest(files, directory));
    } catch (const CheckpointError& error) {
      return error.code();
    }
    return std::string("none");
  };
  CHECK(code("/run") == "E0801");
  files.make_folder("/run");
  CHECK(code("/run") == "E0801");
  files.make_folder("/run/step-00000003");
  files.make_folder("/run/something else");
  files.write_file("/run/step-3", "not the name of a step");
  CHECK(code("/run") == "E0801");
  files.write_file("/run/step-00000003/manifest.json", "{}");
  CHECK(code("/run") == "E0806");
  files.write_file("/file", "");
  CHECK(code("/file") == "E0803");
}

TEST_CASE("all damaged: the error is that of the newest") {
  const auto files = two_checkpoints();
  files->write_file(kOld + "manifest.json", "{}");
  files->remove(files_below(*files, kNew).back());
  try {
    static_cast<void>(find_latest(*files, "/run"));
    FAIL("found one");
  } catch (const CheckpointError& error) {
    CHECK(error.code() == "E0807");
  }
}

TEST_CASE("what was not saved cannot be loaded") {
  const auto files = two_checkpoints();
  CheckpointReader reader(*files, {"/run", 2});
  const TensorInfo w{.name = "parameter/w", .dtype = DType::fp32, .shape = {2, 3}};
  const auto code = [&](TensorInfo info, const ElementRuns& elements, std::size_t bytes) {
    std::vector<std::byte> buffer(bytes);
    const ChunkRequest request{.tensor = std::move(info), .elements = elements, .bytes = buffer};
    try {
      reader.load({&request, 1});
    } catch (const CheckpointError& error) {
      return error.code();
    }
    return std::string("none");
  };
  CHECK(code(w, flat_run(0, 6), 24) == "none");
  CHECK(code(w, {}, 0) == "none");
  CHECK(code(w, {{0, 6, 0, 1}, {0, 1, 0, 1}}, 28) == "E0811");
  CHECK(code(w, flat_run(0, 6), 23) == "E0811");
  CHECK(code(w, flat_run(5, 2), 8) == "E0811");
  CHECK(code({"parameter/v", DType::fp32, {2, 3}}, flat_run(0, 6), 24) == "E0812");
  CHECK(code({"parameter/w", DType::fp64, {2, 3}}, flat_run(0, 6), 48) == "E0812");
  CHECK(code({"parameter/w", DType::fp32, {3, 2}}, flat_run(0, 6), 24) == "E0812");
  CHECK(code({"parameter/w", DType::fp32, {6}}, flat_run(0, 6), 24) == "E0812");
}

}  // namespace
}  // namespace shardsim::test
