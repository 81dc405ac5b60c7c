#include "sim/command/next_command.hpp"

#include <algorithm>
#include <ostream>
#include <string_view>

#include <fmt/format.h>

#include "sim/console/shell_word.hpp"

namespace shardsim {

namespace {

constexpr std::string_view kBeforeCommand = "  Next: ";

std::string path_of(const std::string& override_text) {
  return override_text.substr(0, override_text.find('='));
}

// The command of this run with one more or one different override.
std::string with(const RunArguments& arguments, const std::string& change) {
  std::vector<std::string> overrides = arguments.overrides;
  std::erase_if(overrides,
                [&](const std::string& text) { return path_of(text) == path_of(change); });
  overrides.push_back(change);
  return command_line(arguments.file, overrides);
}

}  // namespace

std::string next_command(const RunArguments& arguments, const Experiment& experiment,
                         const Result& result) {
  const Scenario& scenario = experiment.scenario();
  if (result.diagnosis) return fmt::format("shardsim explain {}", result.diagnosis->code);
  if (result.exit_code == 0 && !arguments.next_command.empty()) return arguments.next_command;
  if (arguments.file == kStandardInput) return "";
  if (result.exit_code == static_cast<int>(ExitCode::does_not_fit)) {
    return scenario.parallelism.zero_stage < 3
               ? with(arguments, "parallelism.zero_stage=3")
               : with(arguments, fmt::format("system.nodes={}", 2 * scenario.system.nodes));
  }
  if (scenario.output.trace.empty()) return with(arguments, "output.trace=step.pftrace");
  return command_line(arguments.file, arguments.overrides) + " --json";
}

void print_wide_command(const std::string& command, std::size_t width, std::ostream& err) {
  if (kBeforeCommand.size() + command.size() > width) err << "next, in full: " << command << "\n";
}

}  // namespace shardsim
