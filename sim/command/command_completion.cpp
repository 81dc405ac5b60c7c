#include "sim/command/command_completion.hpp"

#include <memory>
#include <ostream>
#include <string>

#include <CLI/CLI.hpp>

#include "sim/command/command_tree.hpp"
#include "sim/command/completion.hpp"
#include "sim/command/man_page.hpp"

namespace shardsim {

Verb completion_verb() {
  struct Arguments {
    std::string shell;
    const CLI::App* root =
        nullptr;  // Complete only when all verbs are declared: used when the verb runs.
  };
  const auto arguments = std::make_shared<Arguments>();
  return {.name = "completion",
          .summary = "Print what makes a shell complete verbs, options, presets and fields",
          .add_options =
              [arguments](CLI::App& app) {
                arguments->root = app.get_parent();
                app.add_option("shell", arguments->shell, "Which")
                    ->required()
                    ->check(CLI::IsMember({"bash", "zsh", "fish"}));
              },
          .run =
              [arguments](const Console& console) {
                const CommandTree tree = command_tree(*arguments->root);
                console.out << (arguments->shell == "bash"  ? bash_completion(tree)
                                : arguments->shell == "zsh" ? zsh_completion(tree)
                                                            : fish_completion(tree));
                return 0;
              },
          .wants_json = nullptr,
          .group = VerbGroup::shell,
          .examples = {{"source <(shardsim completion bash)", "in this bash, at once"},
                       {"shardsim completion zsh > ~/.zfunc/_shardsim", "a folder of $fpath"},
                       {"shardsim completion fish > ~/.config/fish/completions/shardsim.fish",
                        "for every fish"}}};
}

Verb man_verb() {
  const auto root = std::make_shared<const CLI::App*>(nullptr);
  return {.name = "man",
          .summary = "Print the manual page",
          .add_options = [root](CLI::App& app) { *root = app.get_parent(); },
          .run =
              [root](const Console& console) {
                console.out << man_page(command_tree(**root));
                return 0;
              },
          .wants_json = nullptr,
          .group = VerbGroup::shell,
          .examples = {{"shardsim man | man -l -", "reads it"}}};
}

}  // namespace shardsim
