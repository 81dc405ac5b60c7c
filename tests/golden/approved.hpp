#pragma once

#include <string>

#include "tests/approved_file.hpp"

// Approved outputs in tests/golden. They are written anew by
//   UPDATE_GOLDEN=1 meson test -C build golden
namespace shardsim::test {

inline void require_approved(const std::string& file_name, const std::string& text) {
  require_approved_file("tests/golden/" + file_name, text);
}

}  // namespace shardsim::test
