#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

// Long lists of cases are tested in parts. SHARDSIM_SAMPLE chooses the part; `./dev test` sets it
// to the number of commits, so that commits in a row cover the list. SHARDSIM_LONG=1 tests it
// whole.
namespace shardsim::test {

inline bool long_run() {
  const char* text = std::getenv("SHARDSIM_LONG");
  return text != nullptr && std::string_view(text) == "1";
}

/// The part, 0 to `parts` - 1, that has the case with this name. A hash decides: a part has no
/// pattern, and a case stays in its part where the list grows.
inline std::uint32_t part_of(std::string_view name, std::uint32_t parts) {
  constexpr std::uint32_t kBasis = 2166136261U;  // FNV-1a.
  constexpr std::uint32_t kPrime = 16777619U;
  std::uint32_t hash = kBasis;
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * kPrime;
  return ((hash >> 16) ^ hash) % parts;  // The hash's lowest bits depend on those of letters alone.
}

/// Whether this run tests the case with this name. Without SHARDSIM_SAMPLE it tests part 0.
inline bool in_sample(std::string_view name, std::uint32_t parts) {
  const char* text = std::getenv("SHARDSIM_SAMPLE");
  const unsigned long sample = text != nullptr ? std::strtoul(text, nullptr, 10) : 0;
  return long_run() || part_of(name, parts) == sample % parts;
}

}  // namespace shardsim::test
