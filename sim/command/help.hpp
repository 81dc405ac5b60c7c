#pragma once

#include <vector>

#include "sim/console/verb.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own name.
class App;
}  // namespace CLI

namespace shardsim {

/// Declares the verbs on the command `app`, each in its group and with its examples below its
/// options; --help of the command itself begins with three of them.
void declare_verbs(CLI::App& app, const std::vector<Verb>& verbs);

}  // namespace shardsim
