#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

// Commands that are printed to be typed again. Use it for every word that a user gave.
namespace shardsim {

/// `word` as a shell reads it back.
[[nodiscard]] inline std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_./=,:+@%").find(c) != std::string_view::npos;
  });
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

/// "shardsim FILE --set a=1 --set b=2".
[[nodiscard]] inline std::string command_line(const std::string& file,
                                              const std::vector<std::string>& overrides) {
  std::string text = "shardsim " + shell_word(file);
  for (const std::string& each : overrides) text += " --set " + shell_word(each);
  return text;
}

}  // namespace shardsim
