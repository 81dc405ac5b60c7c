#include "sim/app/write_text.hpp"

#include <fstream>
#include <ostream>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

namespace shardsim {

void write_text(const std::filesystem::path& path, const std::string& text, std::ostream& err) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) {
    throw UsageError("E0901", fmt::format("cannot write {}", path.string()),
                     "check the folder, its permissions and the space left");
  }
  err << "wrote " << path.string() << "\n";
}

void write_complete(const std::filesystem::path& path, const std::string& text,
                    const std::string& fix) {
  std::filesystem::path unfinished = path;
  unfinished += ".part";
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  std::ofstream file(unfinished, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file) std::filesystem::rename(unfinished, path, error);
  if (!file || error) {
    std::error_code ignored;
    std::filesystem::remove(unfinished, ignored);
    throw Error(ExitCode::bad_usage, "E0901", fmt::format("cannot write {}", path.string()), fix);
  }
}

}  // namespace shardsim
