#include "strategies/checkpoint/file_system.hpp"

#include <cerrno>
#include <system_error>

namespace shardsim {

const char* name_of(FileOperation operation) {
  switch (operation) {
    case FileOperation::make_folder:
      return "making the folder";
    case FileOperation::create:
      return "creating the file";
    case FileOperation::write:
      return "writing";
    case FileOperation::sync:
      return "fsync of the file";
    case FileOperation::close:
      return "closing the file";
    case FileOperation::rename:
      return "renaming";
    case FileOperation::sync_folder:
      return "fsync of the folder";
    case FileOperation::list:
      return "listing the folder";
    case FileOperation::open:
      return "opening";
    case FileOperation::read:
      return "reading";
    case FileOperation::remove:
      return "removing the file";
    case FileOperation::remove_folder:
      return "removing the folder";
  }
  return "?";
}

FileError::FileError(FileOperation operation, const std::string& path, int error_number)
    : std::runtime_error(std::string(name_of(operation)) + " \"" + path +
                         "\": " + std::generic_category().message(error_number) + " (errno " +
                         std::to_string(error_number) + ")"),
      operation_(operation),
      error_number_(error_number) {}

void write_all(OutputFile& file, const std::string& path, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t written = file.write(bytes);
    // A medium that takes nothing and reports nothing would keep us here for ever.
    if (written == 0) throw FileError(FileOperation::write, path, EIO);
    bytes = bytes.subspan(written);
  }
}

bool read_all(InputFile& file, std::int64_t offset, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t got = file.read(offset, bytes);
    if (got == 0) return false;
    offset += static_cast<std::int64_t>(got);
    bytes = bytes.subspan(got);
  }
  return true;
}

std::string parent_of(const std::string& path) {
  std::size_t end = path.size();
  while (end > 1 && path[end - 1] == '/') --end;
  const std::string trimmed = path.substr(0, end);
  const std::size_t slash = trimmed.rfind('/');
  const std::string last = slash == std::string::npos ? trimmed : trimmed.substr(slash + 1);
  // The parent of a dotted name is not what stands before it.
  if (last == "." || last == "..") return trimmed + "/..";
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : trimmed.substr(0, slash);
}

}  // namespace shardsim
