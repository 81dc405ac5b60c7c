#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <unistd.h>

#include "sim/kernel/version.hpp"

#include "backends/mpi/mpi_library.hpp"

#include "scenarios/presets.hpp"

#include "tests/temporary_folder.hpp"

// Any copy of the program loaded code from ../../backends, ../backends and its own folder. Around
// /tmp/shardsim or ~/bin, anybody may own those folders. Presets are found in the same way.
namespace shardsim::test {
namespace {

namespace fs = std::filesystem;

void put(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("a program outside a build folder takes module and presets of its installation only") {
  const TemporaryFolder folder;
  const std::string program = folder / "a/b/bin/shardsim";
  put(program, "a program");
  const auto check_found = [&](const std::string& module, const std::string& presets) {
    CHECK(mpi_module_path_of(program) == folder / module);
    CHECK(preset_directories_beside(program, "..") == std::vector<std::string>{folder / presets});
  };
  const auto check_installed = [&] {
    check_found("a/b/lib/shardsim/libshardsim-mpi.so", "a/b/share/shardsim");
  };
  check_installed();
  // Acts as an attacker who may write to a nearby folder.
  const std::string stamp = folder / "a/shardsim-build-tree";
  put(stamp, "A build folder of shardsim\n");
  check_installed();
  fs::remove(stamp);
  const std::string real = build_root_of(this_executable()).value() + "/shardsim-build-tree";
  fs::create_symlink(real, stamp);
  check_installed();
  fs::remove(stamp);
  fs::copy(real, stamp);
  fs::permissions(stamp, fs::perms(0666));
  check_installed();
  fs::permissions(stamp, fs::perms(0644));
  if (geteuid() == 0) {
    REQUIRE(chown(stamp.c_str(), 65534, 65534) == 0);
    check_installed();
    REQUIRE(chown(stamp.c_str(), 0, 0) == 0);
  }
  check_found("a/backends/libshardsim-mpi.so", "scenarios");
}

}  // namespace shardsim::test
