#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Sets of parts of a block, as scenarios write them: names with commas between them.
namespace shardsim {

/// A set of the enumerators of `Module`, of which there are fewer than 32.
template <typename Module>
class ModuleSet {
 public:
  constexpr ModuleSet() = default;
  constexpr ModuleSet(std::initializer_list<Module> modules) {
    for (const Module module : modules) add(module);
  }
  constexpr void add(Module module) { bits_ |= bit(module); }
  constexpr void remove(Module module) { bits_ &= ~bit(module); }
  [[nodiscard]] constexpr bool has(Module module) const { return (bits_ & bit(module)) != 0; }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  friend bool operator==(const ModuleSet&, const ModuleSet&) = default;

 private:
  static constexpr unsigned bit(Module module) { return 1U << static_cast<unsigned>(module); }
  unsigned bits_ = 0;
};

/// The places in `names` of words with commas between them. Throws UsageError `code` for a word
/// that is no name, twice the same, or none at all.
[[nodiscard]] std::vector<std::size_t> places_of_modules(std::string_view words,
                                                         std::span<const char* const> names,
                                                         const char* code);

/// The set of such words; `names` in the order of the enumerators.
template <typename Module>
[[nodiscard]] ModuleSet<Module> modules_of(std::string_view words,
                                           std::span<const char* const> names, const char* code) {
  ModuleSet<Module> modules;
  for (const std::size_t place : places_of_modules(words, names, code)) {
    modules.add(static_cast<Module>(place));
  }
  return modules;
}

/// The way back.
template <typename Module>
[[nodiscard]] std::string words_of(const ModuleSet<Module>& modules,
                                   std::span<const char* const> names) {
  std::string words;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!modules.has(static_cast<Module>(i))) continue;
    words += (words.empty() ? "" : ",") + std::string(names[i]);
  }
  return words;
}

}  // namespace shardsim
