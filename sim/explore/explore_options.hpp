#pragma once

#include "sim/explore/explore_arguments.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own name.
class App;
}  // namespace CLI

namespace shardsim {

/// --explore and its options, --replay, --shrink: options of `shardsim run`.
void add_explore_options(CLI::App& verb, ExploreArguments& arguments);

}  // namespace shardsim
