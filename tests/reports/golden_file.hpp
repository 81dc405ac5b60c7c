#pragma once

#include <string>

#include "tests/approved_file.hpp"

// Approved outputs in tests/reports/golden. They are written anew by
//   UPDATE_GOLDEN=1 meson test -C build reports
namespace shardsim {

inline void require_golden(const std::string& file_name, const std::string& text) {
  test::require_approved_file("tests/reports/golden/" + file_name, text);
}

}  // namespace shardsim
