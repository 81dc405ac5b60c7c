#pragma once

#include "sim/real/process_options.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own name.
class App;
}  // namespace CLI

namespace shardsim {

/// --backend and its options.
void add_process_options(CLI::App& verb, ProcessOptions& process);

}  // namespace shardsim
