#include "sim/console/scratch_folder.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace fs = std::filesystem;

ScratchFolder::ScratchFolder() {
  std::error_code error;
  fs::path parent = fs::temp_directory_path(error);
  if (error) parent = "/tmp";
  std::string name = (parent / "shardsim-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    throw UsageError("E0901",
                     "cannot make a folder in " + parent.string() + ": " + std::strerror(errno),
                     "set TMPDIR to a folder with space, or name one with --out");
  }
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace shardsim
