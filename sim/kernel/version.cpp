#include "sim/kernel/version.hpp"

#include <array>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/kernel/descriptor.hpp"

namespace shardsim {

namespace {

namespace fs = std::filesystem;

// Meson writes it from build_tree.txt into the build folder.
constexpr const char* kStamp = "shardsim-build-tree";
constexpr std::string_view kText =
    "A build folder of shardsim: its programs look for presets and modules in it.\n";

bool is_stamp(const fs::path& path, const struct stat& program) {
  const Descriptor file(
      ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat status {};
  if (file.number() < 0 || ::fstat(file.number(), &status) != 0) return false;
  const uid_t owner = status.st_uid;
  const bool is_trusted = owner == program.st_uid || owner == 0 || owner == ::geteuid();
  // A file system without permissions lets all write the program, too.
  const bool is_open = (status.st_mode & S_IWOTH) != 0 && (program.st_mode & S_IWOTH) == 0;
  if (!S_ISREG(status.st_mode) || !is_trusted || is_open) return false;
  std::array<char, kText.size() + 1> text{};
  const ssize_t size = ::read(file.number(), text.data(), text.size());
  return size == static_cast<ssize_t>(kText.size()) &&
         std::string_view(text.data(), kText.size()) == kText;
}

}  // namespace

std::string_view version() { return SHARDSIM_VERSION; }

std::optional<std::string> build_root_of(const std::string& executable) {
  struct stat program {};
  if (executable.empty() || ::stat(executable.c_str(), &program) != 0) return std::nullopt;
  const fs::path folder = fs::path(executable).parent_path();
  for (const char* const up : {"../..", "..", "."}) {
    const fs::path root = folder / up;
    if (is_stamp(root / kStamp, program)) {
      std::error_code error;
      return fs::canonical(root, error).string();
    }
  }
  return std::nullopt;
}

std::string this_executable() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).string();
}

}  // namespace shardsim
