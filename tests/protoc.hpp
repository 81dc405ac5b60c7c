#pragma once

#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>

#include "tests/temporary_folder.hpp"

// Protocol buffers as protoc reads them, a reader that is not ours.
namespace shardsim::test {

/// The output of `protoc ARGUMENTS < bytes`. THROWS std::runtime_error with that output if protoc
/// fails or is not installed. `./dev` installs it, and a trace that nobody else reads is not
/// tested.
[[nodiscard]] inline std::string run_protoc(const std::string& arguments,
                                            const std::string& bytes) {
  const TemporaryFolder folder;
  const std::string input = folder / "bytes";
  std::ofstream(input, std::ios::binary) << bytes;
  std::FILE* pipe = popen(("protoc " + arguments + " < " + input + " 2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot start a shell for protoc");
  std::string text;
  char buffer[4096];
  for (std::size_t size = 0; (size = fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
    text.append(buffer, size);
  }
  if (pclose(pipe) != 0) {
    throw std::runtime_error("protoc (Debian: protobuf-compiler) failed and said: " + text);
  }
  return text;
}

}  // namespace shardsim::test
