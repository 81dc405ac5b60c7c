#pragma once

#include "sim/console/verb.hpp"

namespace shardsim {

/// `shardsim completion bash|zsh|fish`: prints the script.
[[nodiscard]] Verb completion_verb();

/// `shardsim man`: prints shardsim(1); an installed one is what `man shardsim` shows.
[[nodiscard]] Verb man_verb();

}  // namespace shardsim
