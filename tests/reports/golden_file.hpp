#pragma once

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <catch2/catch.hpp>

// Approved outputs in tests/reports/golden. They are written anew by
//   UPDATE_GOLDEN=1 meson test -C build reports
// Read the difference before committing it.
namespace shardsim {

inline void require_golden(const std::string& file_name, const std::string& text) {
  const std::string path = "tests/reports/golden/" + file_name;
  if (std::getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(path, std::ios::binary) << text;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream golden;
  golden << file.rdbuf();
  INFO(path);
  REQUIRE(text == golden.str());
}

}  // namespace shardsim
