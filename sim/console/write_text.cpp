#include "sim/console/write_text.hpp"

#include <ostream>

#include "scenarios/source_text.hpp"
#include "sim/console/whole_file.hpp"

namespace shardsim {

void write_text(const std::filesystem::path& path, const std::string& text, std::ostream& err) {
  write_whole_file(path, [&text](std::ostream& file) { file << text; });
  tell_written(path, err);
}

void write_complete(const std::filesystem::path& path, const std::string& text,
                    const std::string& otherwise) {
  make_folder_of(path, otherwise);
  write_whole_file(
      path, [&text](std::ostream& file) { file << text; }, otherwise);
}

void tell_written(const std::filesystem::path& path, std::ostream& err) {
  err << "wrote " << printable(path.string(), 200) << "\n";
}

}  // namespace shardsim
