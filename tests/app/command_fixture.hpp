#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "scenarios/scenario.hpp"
#include "sim/command/command_run.hpp"

#include "tests/temporary_folder.hpp"

// Runs the command in this process and keeps what it printed; and files that go away with the test.
namespace shardsim::test {

struct Printed {
  int exit_code = -1;
  std::string out;
  std::string err;
};

/// Arguments that are refused: what is said of them, and how to go on.
struct Mistake {
  std::vector<std::string> arguments;
  const char* said;
  const char* way_out;
};

/// A scenario without data, the first that a user meets.
inline const std::string kPlan = "scenarios/quickstart.json";

/// A plan of a verify scenario, whose device is small, needs room for a CUDA context, too.
inline const std::string kLargeDevice = "system.device.memory_gib=80";

/// `shardsim ARGUMENTS...`.
[[nodiscard]] Printed shardsim(const std::vector<std::string>& arguments);

/// `shardsim run` with something between strategies and network.
[[nodiscard]] Printed shardsim_with(const RunArguments& arguments, const RunHooks& hooks);

/// Paths of all files in a folder, relative to it, ascending.
[[nodiscard]] std::vector<std::string> files_in(const TemporaryFolder& folder);

/// All scenarios/verify-*.json, by name.
[[nodiscard]] std::vector<std::string> verify_scenarios();
/// All scenarios that ship.
[[nodiscard]] std::vector<std::string> all_scenarios();

/// The scenario whose loss scale is at first too large: it skips steps.
inline constexpr const char* kSkipping = "scenarios/verify-gpt-tp2-pp2-dp2-fp16.json";
[[nodiscard]] Scenario skipping(const std::vector<std::string>& overrides = {});

void write(const std::string& path, const std::string& text);
[[nodiscard]] std::string content_of(const std::string& path);
[[nodiscard]] bool contains(const std::string& text, const std::string& part);

}  // namespace shardsim::test
