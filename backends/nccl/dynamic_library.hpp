#pragma once

#include <string>
#include <vector>

namespace shardsim {

/// A shared library opened while the program runs. It is never closed: its threads may run, and its
/// functions may be called, until the process ends.
class DynamicLibrary {
 public:
  /// Opens the first of `names` that can be, each a path or a name for the loader. `errors()` says
  /// why not, one line per name, if none can.
  explicit DynamicLibrary(const std::vector<std::string>& names);

  [[nodiscard]] bool is_open() const { return handle_ != nullptr; }
  [[nodiscard]] const std::vector<std::string>& errors() const { return errors_; }
  /// The file that was opened, in full.
  [[nodiscard]] std::string path() const;

  /// Sets `function` to the symbol, or notes it as missing. REQUIRES: is_open().
  template <class Function>
  void require(const char* symbol, Function*& function) {
    function = reinterpret_cast<Function*>(find(symbol));
    if (function == nullptr) missing_.emplace_back(symbol);
  }
  /// Those required and not found.
  [[nodiscard]] const std::vector<std::string>& missing() const { return missing_; }

 private:
  [[nodiscard]] void* find(const char* symbol) const;

  void* handle_ = nullptr;
  std::vector<std::string> errors_;
  std::vector<std::string> missing_;
};

/// The names to try: `explicit_path` alone if it is given, else the path in the environment's
/// `variable` alone if that is set, else `defaults`.
[[nodiscard]] std::vector<std::string> library_names(const std::string& explicit_path,
                                                     const char* variable,
                                                     std::vector<std::string> defaults);

}  // namespace shardsim
