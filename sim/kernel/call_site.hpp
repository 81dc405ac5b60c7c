#pragma once

// The place of a communication call, for diagnostics only: call sites never enter a hash. Clang 14
// has no std::source_location; the builtins as default arguments do the same.
namespace shardsim {

struct CallSite {
  const char* file = "";
  int line = 0;
  const char* function = "";

  /// As a default argument of a function, yields the place that function was called from.
  static constexpr CallSite here(const char* file = __builtin_FILE(), int line = __builtin_LINE(),
                                 const char* function = __builtin_FUNCTION()) {
    return {file, line, function};
  }
};

}  // namespace shardsim
