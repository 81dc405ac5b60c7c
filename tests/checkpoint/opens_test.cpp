#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/checkpoint/names.hpp"

#include "tests/checkpoint/memory_file_system.hpp"
#include "tests/checkpoint/sample_state.hpp"

// Which files a reader opens: with N ranks that each load their part, N files once each, not N
// times N.
namespace shardsim::test {
namespace {

constexpr std::int64_t kSavedRanks = 6;
const CheckpointPlace kStep1{.directory = "/run", .step = 1};
const std::string kStep1Folder = "/run/step-00000001/";

// Rank r has the r-th sixth of a vector of 24, the last rank a tensor of its own, too.
struct SavedTensors {
  GlobalTensor vector = make_tensor("vector", DType::fp32, {24});
  GlobalTensor single = make_tensor("single", DType::int64, {});
  MemoryFileSystem files;

  SavedTensors() {
    RankChunks ranks;
    for (std::int64_t rank = 0; rank < kSavedRanks; ++rank) {
      ranks.push_back({cut(vector, flat_run(4 * rank, 4))});
    }
    ranks.back().push_back(cut(single, flat_run(0, 1)));
    REQUIRE(save(files, kStep1, ranks, {}).ok());
    files.opens.clear();
  }

  // The files that one process opens to load `elements` of the vector.
  std::map<std::string, int> opened(const ElementRuns& elements) {
    files.opens.clear();
    CheckpointReader reader(files, kStep1);
    CHECK(load(reader, vector.info, elements) == cut(vector, elements).bytes);
    return files.opens;
  }
  // By rank, from 0; and the manifest.
  [[nodiscard]] std::map<std::string, int> once(const std::vector<std::size_t>& ranks) const {
    std::vector<std::string> names;
    for (const std::string& path : files.all_files()) {
      if (path.ends_with(".safetensors")) names.push_back(path);
    }
    std::map<std::string, int> expected = {{kStep1Folder + std::string(kManifestName), 1}};
    for (const std::size_t rank : ranks) expected[names.at(rank)] = 1;
    return expected;
  }
};

}  // namespace

TEST_CASE("a reader opens the files that hold what it asks for, and no other") {
  SavedTensors saved;
  for (std::int64_t rank = 0; rank < kSavedRanks; ++rank) {
    CHECK(saved.opened(flat_run(4 * rank, 4)) == saved.once({static_cast<std::size_t>(rank)}));
  }
  CHECK(saved.opened(flat_run(8, 8)) == saved.once({2, 3}));
  CHECK(saved.opened(flat_run(7, 2)) == saved.once({1, 2}));
  CHECK(saved.opened({}) == saved.once({}));
  CHECK(saved.opened(flat_run(0, 24)) == saved.once({0, 1, 2, 3, 4, 5}));
}

TEST_CASE("a file is found missing by whoever needs it, and by whoever looks for all") {
  SavedTensors saved;
  const auto problem_of = [&](auto&& call) {
    try {
      CheckpointReader reader(saved.files, kStep1);
      call(reader);
      return CheckpointProblem::none;
    } catch (const CheckpointError& error) {
      return error.problem();
    }
  };
  const auto loads = [&](std::int64_t rank) {
    return problem_of([&](CheckpointReader& reader) {
      static_cast<void>(load(reader, saved.vector.info, flat_run(4 * rank, 4)));
    });
  };
  const auto finds = [&] {
    return problem_of([](CheckpointReader& reader) { reader.find_files(); });
  };
  CHECK(finds() == CheckpointProblem::none);
  const std::string third = saved.files.all_files().at(3);  // Behind the manifest.
  REQUIRE(third.find("rank-0002-") != std::string::npos);
  saved.files.remove(third);
  CHECK(loads(1) == CheckpointProblem::none);
  CHECK(loads(2) == CheckpointProblem::missing_file);
  CHECK(finds() == CheckpointProblem::missing_file);
  saved.files.write_file(third, "short");
  CHECK(loads(1) == CheckpointProblem::none);
  CHECK(loads(2) == CheckpointProblem::damaged);
  CHECK(finds() == CheckpointProblem::damaged);
}

}  // namespace shardsim::test
