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

}  // namespace shardsim
