#include "scenarios/read_file.hpp"

#include <filesystem>
#include <fstream>
#include <istream>
#include <system_error>
#include <utility>

#include "scenarios/confined_reading.hpp"

namespace shardsim {

std::optional<std::string> read_regular_file(const std::string& path, std::size_t max_bytes,
                                             ProblemList& problems) {
  namespace fs = std::filesystem;
  const std::string shown = "\"" + printable(path, 200) + "\"";
  // A NUL inside would silently cut the name short.
  if (path.empty() || path.find('\0') != std::string::npos) {
    problems.add_file("E0001", path, "this is not the name of a file");
    return std::nullopt;
  }
  if (!may_read(path, problems)) return std::nullopt;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found || status.type() == fs::file_type::none) {
    problems.add_file("E0001", path, "cannot find " + shown, "check the name and the folder");
    return std::nullopt;
  }
  if (status.type() != fs::file_type::regular) {
    const bool folder = status.type() == fs::file_type::directory;
    problems.add_file("E0001", path, shown + (folder ? " is a folder" : " is not a regular file"),
                      "give the name of a file");
    return std::nullopt;
  }
  const auto size = fs::file_size(path, error);
  if (!error && size > max_bytes) {
    problems.add_file("E0003", path,
                      shown + " has " + std::to_string(size) + " bytes; the limit is " +
                          std::to_string(max_bytes),
                      "is this the right file?");
    return std::nullopt;
  }
  std::ifstream in(path, std::ios::binary);
  std::string text;
  if (in) {
    text.resize(static_cast<std::size_t>(size));
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
  }
  if (error || !in) {
    problems.add_file("E0001", path, "cannot read " + shown, "check its permissions");
    return std::nullopt;
  }
  return text;
}

std::string read_regular_file(const std::string& path, std::size_t max_bytes) {
  ProblemList problems;
  std::optional<std::string> text = read_regular_file(path, max_bytes, problems);
  problems.throw_if_any();
  return std::move(*text);
}

std::optional<std::string> read_stream(std::istream& in, const std::string& name,
                                       std::size_t max_bytes, ProblemList& problems) {
  constexpr std::size_t kAtOnce = std::size_t{1} << 16U;
  std::string text;
  while (in && text.size() <= max_bytes) {
    const std::size_t before = text.size();
    text.resize(before + kAtOnce);
    in.read(text.data() + before, static_cast<std::streamsize>(kAtOnce));
    text.resize(before + static_cast<std::size_t>(in.gcount()));
  }
  if (text.size() <= max_bytes) return text;
  problems.add_file("E0003", name,
                    name + " has more than " + std::to_string(max_bytes) + " bytes, the limit",
                    "is this the right input?");
  return std::nullopt;
}

}  // namespace shardsim
