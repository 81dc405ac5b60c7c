#include "sim/command/program_words.hpp"

#include <cstddef>

#include <CLI/CLI.hpp>

namespace shardsim {

namespace {

bool has_a_value(const CLI::App& verb, const std::string& name) {
  const CLI::Option* option = verb.get_option_no_throw(name);
  return option != nullptr && option->get_items_expected_max() > 0;
}

// Whether the value of an option is the next word: "--world", "-o", "-qo"; not "--world=8", "-oX".
bool takes_next_word(const CLI::App& verb, const std::string& word) {
  if (word.starts_with("--")) return has_a_value(verb, word);
  for (std::size_t i = 1; i < word.size(); ++i) {
    if (has_a_value(verb, "-" + word.substr(i, 1))) return i + 1 == word.size();
  }
  return false;
}

}  // namespace

std::vector<std::string> program_words(const CLI::App& verb,
                                       const std::vector<std::string>& words) {
  std::size_t name = 0;
  while (name < words.size() && words[name].size() > 1 && words[name].front() == '-') {
    if (words[name] == "--") {
      ++name;
      break;
    }
    name += takes_next_word(verb, words[name]) ? 2 : 1;
  }
  if (name >= words.size()) return {};
  return {words.begin() + static_cast<std::ptrdiff_t>(name) + 1, words.end()};
}

}  // namespace shardsim
