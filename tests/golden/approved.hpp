#pragma once

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <catch2/catch.hpp>

// Approved outputs in tests/golden. They are written anew by
//   UPDATE_GOLDEN=1 meson test -C build golden
// Read the difference before committing it.
namespace shardsim::test {

inline void require_approved(const std::string& file_name, const std::string& text) {
  const std::string path = "tests/golden/" + file_name;
  if (std::getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(path, std::ios::binary) << text;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream approved;
  approved << file.rdbuf();
  INFO(path);
  REQUIRE(text == approved.str());
}

}  // namespace shardsim::test
