#include "sim/command/python_part.hpp"

#include <filesystem>
#include <system_error>
#include <utility>

#include "sim/kernel/error.hpp"
#include "sim/kernel/version.hpp"

#include "backends/rendezvous/launch_environment.hpp"

#include "sim/console/whole_file.hpp"

namespace shardsim {

namespace {

namespace fs = std::filesystem;

constexpr const char* kPackage = "shardsim/torch/__init__.py";
constexpr double kPollSeconds = 0.2;
constexpr double kGraceSeconds = 5.0;

// A variable that is set and not empty.
std::optional<std::string> named_by(const char* variable) {
  std::optional<std::string> value = lookup_environment(variable);
  if (value && value->empty()) value.reset();
  return value;
}

std::string package_folder() {
  const std::optional<std::string> named = named_by("SHARDSIM_PYTHON_PATH");
  const std::vector<std::string> folders =
      named ? std::vector<std::string>{*named}
            : python_folders_beside(this_executable(), SHARDSIM_ROOT_FROM_BUILD);
  std::string looked_at;
  for (const std::string& folder : folders) {
    std::error_code error;
    if (fs::is_regular_file(fs::path(folder) / kPackage, error)) return folder;
    looked_at += (looked_at.empty() ? "" : ", ") + quoted_path(folder);
  }
  throw UsageError("E1388", "the Python part of shardsim is not in " + looked_at,
                   "set SHARDSIM_PYTHON_PATH to the folder python of a checkout, or copy that "
                   "folder beside the command");
}

[[noreturn]] void throw_no_interpreter(const std::string& reason) {
  throw UsageError("E1389", reason,
                   "set SHARDSIM_PYTHON to the Python that has PyTorch, by its whole path");
}

}  // namespace

std::vector<std::string> python_folders_beside(const std::string& executable,
                                               const std::string& root_from_build) {
  if (const std::optional<std::string> build = build_root_of(executable)) {
    return {(fs::path(*build) / root_from_build / "python").lexically_normal().string()};
  }
  const fs::path folder = fs::path(executable).parent_path();
  return {(folder / "../share/shardsim/python").lexically_normal().string(),
          (folder / "python").string()};
}

ProcessCommand python_command(const std::string& module,
                              const std::vector<std::string>& arguments) {
  ProcessCommand command;
  command.argv = {named_by("SHARDSIM_PYTHON").value_or("python3"), "-m", module};
  command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
  const std::optional<std::string> others = named_by("PYTHONPATH");
  command.environment.emplace_back("PYTHONPATH",
                                   package_folder() + (others ? ":" + *others : std::string()));
  return command;
}

int run_to_end(ProcessCommand command, std::ostream& output) {
  command.output = &output;
  const InterruptGuard guard;
  ProcessLauncher launcher;
  int started = 0;
  try {
    started = launcher.start(command);
  } catch (const Error& error) {
    throw_no_interpreter(error.what());
  }
  while (launcher.num_running() > 0) {
    launcher.poll(kPollSeconds);
    if (!InterruptGuard::interrupted()) continue;
    launcher.stop(kGraceSeconds);
    throw Error(ExitCode::interrupted, "E9000", "interrupted; what was recorded is lost",
                "give the same command again");
  }
  return launcher.end_of(started)->exit_code;
}

}  // namespace shardsim
