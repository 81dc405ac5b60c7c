#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "scenarios/source_text.hpp"

// Commands that are printed for the user to type again. Use it for every word of the user.
namespace shardsim {

/// `word` as a shell reads it back.
[[nodiscard]] inline std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_./=,:+@%").find(c) != std::string_view::npos;
  });
  if (plain) return word;
  // Bash, zsh and ksh read this form; printed raw, such characters could take over a terminal.
  if (printable(word, kWholeText) != word) {
    std::string escaped = "$'";
    for (const char c : word) {
      const auto code = static_cast<unsigned char>(c);
      const bool shown = std::isprint(code) != 0 && c != '\'' && c != '\\' && c != '#' && c != ':';
      escaped += shown ? std::string(1, c) : fmt::format("\\x{:02x}", code);
    }
    return escaped + "'";
  }
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

/// "a.b" of the override "a.b=value".
[[nodiscard]] inline std::string overridden_field(const std::string& override_text) {
  return override_text.substr(0, override_text.find('='));
}

/// "shardsim FILE --set a=1 --set b=2".
[[nodiscard]] inline std::string command_line(const std::string& file,
                                              const std::vector<std::string>& overrides) {
  std::string text = "shardsim " + shell_word(file);
  for (const std::string& each : overrides) text += " --set " + shell_word(each);
  return text;
}

}  // namespace shardsim
