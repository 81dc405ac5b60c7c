#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "backends/rendezvous/process_launcher.hpp"

// The Python part of shardsim (python/shardsim), whose modules run as processes of their own. The
// package is that of the checkout or the installation to which the command belongs. The variable
// SHARDSIM_PYTHON_PATH names another folder for it, and SHARDSIM_PYTHON another interpreter.
namespace shardsim {

/// The folders in which the package may lie, for an executable at `executable` ("" if unknown);
/// `root_from_build` is the path from a build folder to the checkout's root.
[[nodiscard]] std::vector<std::string> python_folders_beside(const std::string& executable,
                                                             const std::string& root_from_build);

/// The command that runs a module: python3 -m MODULE ARGUMENTS..., which finds the package. Throws
/// UsageError E1388 where there is no package.
[[nodiscard]] ProcessCommand python_command(const std::string& module,
                                            const std::vector<std::string>& arguments);

/// Starts the command, passes all that it prints on to `output`, and waits for its end. Returns its
/// exit code. Throws Error: E1389 where there is no interpreter, E9000 after SIGINT or SIGTERM,
/// when its processes have ended.
[[nodiscard]] int run_to_end(ProcessCommand command, std::ostream& output);

}  // namespace shardsim
