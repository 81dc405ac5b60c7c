#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include <unistd.h>

#include "sim/kernel/error.hpp"

#include "sim/command/cli.hpp"
#include "sim/console/terminal_width.hpp"

namespace {

// Nothing is half done when this ends the process: files get their names when they are complete.
// Only calls that are safe in a signal handler.
void end_interrupted(int /*signal*/) {
  constexpr std::string_view kLine =
      "\nerror[E9000]: interrupted; the results of this run are lost, and no file was left half "
      "written\n   = help: give the same command again; fewer execution.steps or "
      "execution.fold=auto make it shorter\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kLine.data(), kLine.size());
  _exit(static_cast<int>(shardsim::ExitCode::interrupted));
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGINT, end_interrupted);
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool terminal = isatty(STDOUT_FILENO) != 0 && (no_color == nullptr || *no_color == '\0') &&
                        (term == nullptr || std::string_view(term) != "dumb");
  return shardsim::run_command(argc, argv, std::cout, std::cerr, terminal, {},
                               {.out_width = shardsim::terminal_width(STDOUT_FILENO),
                                .err_width = shardsim::terminal_width(STDERR_FILENO)});
}
