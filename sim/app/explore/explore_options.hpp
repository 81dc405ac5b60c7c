#pragma once

#include "sim/app/explore/explore_arguments.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace shardsim {

/// --explore and what belongs to it, --replay, --shrink: options of `shardsim run`.
void add_explore_options(CLI::App& verb, ExploreArguments& arguments);

}  // namespace shardsim
