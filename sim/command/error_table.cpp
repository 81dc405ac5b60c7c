#include "sim/command/error_table.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "sim/kernel/text.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kCodeLength = 5;
constexpr std::string_view kFix = "  fix: ";
constexpr std::string_view kExample = "  example: ";

// The table is part of the program: what is wrong in it is a fault of the build, which tests see.
[[noreturn]] void refuse(std::string_view line) {
  throw std::logic_error("sim/command/errors: \"" + std::string(line) + "\" is not expected");
}

std::vector<ErrorEntry> read_entries() {
  std::vector<ErrorEntry> entries;
  const std::string_view texts = error_texts();
  for (const std::string_view line : split_at(texts, '\n')) {
    if (line.empty()) continue;
    if (line.front() == 'E') {
      if (line.size() < kCodeLength + 2 || line[kCodeLength] != ' ') refuse(line);
      entries.push_back({line.substr(0, kCodeLength), line.substr(kCodeLength + 1), "", ""});
    } else if (!entries.empty() && entries.back().fix.empty() && line.starts_with(kFix)) {
      entries.back().fix = line.substr(kFix.size());
    } else if (!entries.empty() && entries.back().example.empty() && line.starts_with(kExample)) {
      entries.back().example = line.substr(kExample.size());
    } else {
      refuse(line);
    }
  }
  std::ranges::sort(entries, {}, &ErrorEntry::code);
  return entries;
}

}  // namespace

const std::vector<ErrorEntry>& error_table() {
  static const std::vector<ErrorEntry> kEntries = read_entries();
  return kEntries;
}

const ErrorEntry* find_error(std::string_view code) {
  const std::vector<ErrorEntry>& entries = error_table();
  const auto found = std::ranges::find(entries, code, &ErrorEntry::code);
  return found == entries.end() ? nullptr : &*found;
}

bool has_command(const ErrorEntry& entry) {
  constexpr std::string_view kCommand = "shardsim ";
  const std::size_t at = entry.example.find(kCommand);
  if (at == std::string_view::npos || at == 0) return at == 0;
  // Behind another command, a variable of the shell, or the start of a line.
  const std::string_view before = entry.example.substr(0, at);
  if (before.ends_with("; ") || before.ends_with("| ")) return true;
  const std::size_t blank = before.rfind(' ', before.size() - 2);
  const std::string_view last = before.substr(blank == std::string_view::npos ? 0 : blank + 1);
  return last.find('=') != std::string_view::npos;
}

}  // namespace shardsim
