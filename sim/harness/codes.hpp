#pragma once

#include <span>
#include <string>
#include <string_view>

// Every code that a diagnosis may carry, and its meaning.
namespace shardsim {

struct CodeEntry {
  const char* code;
  const char* meaning;  ///< One sentence: the observation.
  const char* causes;   ///< The usual causes.
  const char* fix;      ///< The way out.
  const char* example;  ///< A minimal program, in words.
};

/// All, in the order of the guide: communication, buffers, schedules, numbers.
[[nodiscard]] std::span<const CodeEntry> all_codes();
/// Null if there is none.
[[nodiscard]] const CodeEntry* find_code(std::string_view code);
/// The output of `shardsim explain CODE`.
[[nodiscard]] std::string explain(const CodeEntry& entry);

}  // namespace shardsim
