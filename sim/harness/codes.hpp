#pragma once

#include <span>
#include <string>
#include <string_view>

// Every code that a diagnosis may carry, and what it means.
namespace shardsim {

struct CodeEntry {
  const char* code;
  const char* meaning;  ///< One sentence: what was seen.
  const char* causes;   ///< What mostly is behind it.
  const char* fix;      ///< What to do.
  const char* example;  ///< A minimal program, in words.
};

/// All, in the order of the guide: communication, buffers, schedules, numbers.
[[nodiscard]] std::span<const CodeEntry> all_codes();
/// Null if there is none.
[[nodiscard]] const CodeEntry* find_code(std::string_view code);
/// What `shardsim explain CODE` prints.
[[nodiscard]] std::string explain(const CodeEntry& entry);

}  // namespace shardsim
