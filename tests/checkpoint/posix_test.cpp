#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <catch2/catch.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/checkpoint/sample_state.hpp"
#include "tests/temporary_folder.hpp"

// The files of this machine.
namespace shardsim::test {
namespace {

FileSystem& disk() { return posix_file_system(); }

SaveStatus save_step(const std::string& directory, std::int64_t step) {
  const SampleState state = make_sample(step);
  return save(disk(), {directory, step}, state.ranks, state.scalars);
}

std::string code_of_error(const SaveStatus& status) {
  try {
    raise_if_failed(status, {"d", 1});
  } catch (const CheckpointError& error) {
    return error.code();
  }
  return "none";
}

int errno_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const FileError& error) {
    return error.error_number();
  }
  return 0;
}

TEST_CASE("checkpoints on a disk are saved, kept, found and loaded") {
  const TemporaryFolder folder;
  const std::string directory = folder.path() + "/run";
  for (const std::int64_t step : {1, 2, 3, 3, 10}) REQUIRE(save_step(directory, step).ok());
  CHECK(disk().list(directory) == std::vector<std::string>{"step-00000003", "step-00000010"});
  LatestCheckpoint latest = find_latest(disk(), directory);
  CHECK(holds(latest.reader, make_sample(10)));
  CheckpointReader older(disk(), {directory, 3});
  CHECK(holds(older, make_sample(3)));
  CHECK(disk().list(directory + "/step-00000010").size() == 4);
}

TEST_CASE("what a disk refuses is reported as what it is") {
  const TemporaryFolder folder;
  CHECK(code_of_error(save_step(folder.path() + "/not/there", 1)) == "E0801");
  std::ofstream(folder.path() + "/file") << "text";
  CHECK(code_of_error(save_step(folder.path() + "/file", 1)) == "E0803");
  CHECK(code_of_error(save_step(folder.path() + "/" + std::string(300, 'x'), 1)) == "E0803");
  if (::geteuid() != 0) {  // Nothing is forbidden to the superuser.
    ::chmod(folder.path().c_str(), 0500);
    CHECK(code_of_error(save_step(folder.path() + "/run", 1)) == "E0802");
    ::chmod(folder.path().c_str(), 0700);
  }
  CHECK(code_of_error(save_step("", 1)) == "E0811");
}

TEST_CASE("only regular files are read, and nothing is waited for") {
  const TemporaryFolder folder;
  const std::string pipe = folder.path() + "/pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(errno_of([&] { static_cast<void>(disk().open(pipe)); }) == EINVAL);
  CHECK(errno_of([&] { static_cast<void>(disk().open(folder.path())); }) == EISDIR);
  CHECK(errno_of([&] { static_cast<void>(disk().open("/dev/null")); }) == EINVAL);
  CHECK(errno_of([&] { static_cast<void>(disk().open(folder.path() + "/none")); }) == ENOENT);
}

TEST_CASE("a link in the place of a temporary is not followed") {
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/precious") << "text";
  std::filesystem::create_symlink("precious", folder.path() + "/link");
  CHECK(errno_of([&] { static_cast<void>(disk().create(folder.path() + "/link")); }) == ELOOP);
  CHECK(disk().open(folder.path() + "/precious")->size() == 4);
}

TEST_CASE("each call of the disk reports its failure") {
  const TemporaryFolder folder;
  const std::string none = folder.path() + "/none";
  CHECK(errno_of([&] { disk().sync_folder(none); }) == ENOENT);
  CHECK(errno_of([&] { static_cast<void>(disk().list(none)); }) == ENOENT);
  CHECK(errno_of([&] { disk().remove(none); }) == ENOENT);
  CHECK(errno_of([&] { disk().remove_folder(none); }) == ENOENT);
  CHECK(errno_of([&] { disk().rename(none, none + "2"); }) == ENOENT);
  CHECK(errno_of([&] { static_cast<void>(disk().create(none + "/file")); }) == ENOENT);
  CHECK(errno_of([&] { disk().make_folder(none + "/folder"); }) == ENOENT);
  const auto full = [&] {
    const auto file = disk().create("/dev/full");
    const std::byte byte{1};
    static_cast<void>(file->write({&byte, 1}));
  };
  CHECK(errno_of(full) == ENOSPC);
}

TEST_CASE("a folder's parent is found without asking the disk") {
  CHECK(parent_of("a") == ".");
  CHECK(parent_of("a/b") == "a");
  CHECK(parent_of("a/b/") == "a");
  CHECK(parent_of("/a") == "/");
  CHECK(parent_of("/") == "/");
  CHECK(parent_of("/a/b//") == "/a");
  CHECK(parent_of(".") == "./..");
  CHECK(parent_of("a/..") == "a/../..");
}

TEST_CASE("files of others in a step's folder stay where they are") {
  const TemporaryFolder folder;
  const std::string directory = folder.path() + "/run";
  REQUIRE(save_step(directory, 1).ok());
  std::ofstream(directory + "/step-00000001/notes.txt") << "text";
  std::ofstream(directory + "/step-00000001/rank-0007.tmp") << "left by a save that was stopped";
  std::filesystem::create_directory(directory + "/logs");
  for (const std::int64_t step : {2, 3}) REQUIRE(save_step(directory, step).ok());
  CHECK(disk().list(directory) ==
        std::vector<std::string>{"logs", "step-00000001", "step-00000002", "step-00000003"});
  CHECK(disk().list(directory + "/step-00000001") == std::vector<std::string>{"notes.txt"});
  CHECK(find_latest(disk(), directory).reader.step() == 3);
}

}  // namespace
}  // namespace shardsim::test
