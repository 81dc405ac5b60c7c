#pragma once

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <catch2/catch.hpp>

namespace shardsim::test {

/// Compares with an approved output. With UPDATE_GOLDEN set it is written anew instead; read the
/// difference before committing it.
inline void require_approved_file(const std::string& path, const std::string& text) {
  if (std::getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(path, std::ios::binary) << text;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream approved;
  approved << file.rdbuf();
  INFO(path);
  REQUIRE(text == approved.str());
}

}  // namespace shardsim::test
