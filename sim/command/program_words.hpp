#pragma once

#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own name.
class App;
}  // namespace CLI

// The command line of a verb that starts another program: "torch --world 8 train.py --lr 0.1".
namespace shardsim {

/// The words that belong to the program, of those behind the verb's name: all behind the program's
/// name, which is the first word that is no option of `verb`, nor an option's value.
[[nodiscard]] std::vector<std::string> program_words(const CLI::App& verb,
                                                     const std::vector<std::string>& words);

}  // namespace shardsim
