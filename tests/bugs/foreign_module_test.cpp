#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <unistd.h>

#include "sim/kernel/build_tree.hpp"

#include "backends/mpi/mpi_library.hpp"

#include "tests/temporary_folder.hpp"

// Any copy of the program loaded code from ../../backends, ../backends and its own folder. Around
// /tmp/shardsim or ~/bin, anybody may own those folders.
namespace shardsim::test {
namespace {

namespace fs = std::filesystem;

void put(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("a program outside a build folder takes the module of its installation only") {
  const TemporaryFolder folder;
  const std::string program = folder / "a/b/bin/shardsim";
  put(program, "a program");
  const std::vector<std::string> installed = {folder / "a/b/lib/shardsim/libshardsim-mpi.so"};
  CHECK(mpi_module_paths_of(program) == installed);
  // Acts as an attacker who may write to a nearby folder.
  const std::string stamp = folder / "a/shardsim-build-tree";
  put(stamp, "A build folder of shardsim\n");
  CHECK(mpi_module_paths_of(program) == installed);
  fs::remove(stamp);
  const std::string real = build_root_of(this_executable()).value() + "/shardsim-build-tree";
  fs::create_symlink(real, stamp);
  CHECK(mpi_module_paths_of(program) == installed);
  fs::remove(stamp);
  fs::copy(real, stamp);
  fs::permissions(stamp, fs::perms(0666));
  CHECK(mpi_module_paths_of(program) == installed);
  fs::permissions(stamp, fs::perms(0644));
  if (geteuid() == 0) {
    REQUIRE(chown(stamp.c_str(), 65534, 65534) == 0);
    CHECK(mpi_module_paths_of(program) == installed);
    REQUIRE(chown(stamp.c_str(), 0, 0) == 0);
  }
  CHECK(mpi_module_paths_of(program) ==
        std::vector<std::string>{folder / "a/backends/libshardsim-mpi.so"});
}

}  // namespace shardsim::test
