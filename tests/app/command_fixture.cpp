#include "tests/app/command_fixture.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

#include "scenarios/load.hpp"
#include "sim/command/cli.hpp"
#include "sim/run/run.hpp"

namespace shardsim::test {

namespace fs = std::filesystem;

Printed shardsim(const std::vector<std::string>& arguments) {
  std::vector<const char*> words = {"shardsim"};
  for (const std::string& argument : arguments) words.push_back(argument.c_str());
  std::ostringstream out;
  std::ostringstream err;
  const int exit_code = run_command(static_cast<int>(words.size()), words.data(), out, err, false);
  return {exit_code, out.str(), err.str()};
}

Printed shardsim_with(const RunArguments& arguments, const RunHooks& hooks) {
  std::ostringstream out;
  std::ostringstream err;
  const int exit_code = command_run(arguments, out, err, hooks);
  return {exit_code, out.str(), err.str()};
}

std::vector<std::string> files_in(const TemporaryFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
    if (entry.is_regular_file())
      names.push_back(fs::relative(entry.path(), folder.path()).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> verify_scenarios() {
  std::vector<std::string> names = all_scenarios();
  names.erase(std::remove_if(names.begin(), names.end(),
                             [](const std::string& name) {
                               return name.find("/verify-") == std::string::npos;
                             }),
              names.end());
  return names;
}

std::vector<std::string> all_scenarios() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator("scenarios")) {
    const std::string name = entry.path().string();
    if (entry.path().extension() == ".json" && !contains(name, "schema")) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Scenario skipping(const std::vector<std::string>& overrides) {
  return load_scenario(kSkipping, overrides);
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace shardsim::test
