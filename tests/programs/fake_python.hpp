#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/temporary_folder.hpp"

namespace shardsim::test {

/// A variable of the environment, as long as this lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

/// A folder with a program that stands for Python, and nothing else but what it and the command
/// write.
class FakePython {
 public:
  explicit FakePython(const std::string& program)
      : python_("SHARDSIM_PYTHON", folder_ / "python"), scratch_("TMPDIR", folder_ / "scratch") {
    std::filesystem::create_directory(folder_ / "scratch");
    write(folder_ / "python", program);
    std::filesystem::permissions(folder_ / "python", std::filesystem::perms::owner_all);
  }
  [[nodiscard]] std::string operator/(const std::string& name) const { return folder_ / name; }
  [[nodiscard]] bool left_nothing() const { return std::filesystem::is_empty(folder_ / "scratch"); }

 private:
  TemporaryFolder folder_;
  Variable python_;
  Variable scratch_;
};

}  // namespace shardsim::test
