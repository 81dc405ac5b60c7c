#pragma once

#include <string>

// The page, its script and its style. They are part of the program: nothing is read or fetched.
namespace shardsim {

[[nodiscard]] std::string serve_page();
[[nodiscard]] std::string serve_script();
[[nodiscard]] std::string serve_style();

}  // namespace shardsim
